/* State that a C library keeps for a thread. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static __thread long values_counter = 40;
static __thread char values_zeros[3000];
static pthread_key_t values_key;
static pthread_once_t values_once = PTHREAD_ONCE_INIT;
static long values_destroyed;

static void destroy(void *data) {
    __atomic_add_fetch(&values_destroyed, *(long *)data, __ATOMIC_RELAXED);
    free(data);
}

static void create(void) {
    if (pthread_key_create(&values_key, destroy) != 0)
        abort();
}

long *values_of_thread(void) { return &values_counter; }

char *values_zeros_of_thread(void) { return values_zeros; }

/* Returns the value of the calling thread's key, which is 0 at first. */
long *values_of_key(void) {
    pthread_once(&values_once, create);
    long *data = pthread_getspecific(values_key);
    if (!data) {
        data = calloc(1, sizeof *data);
        if (!data || pthread_setspecific(values_key, data) != 0)
            abort();
    }
    return data;
}

/* Returns the sum of the values that were destroyed. */
long values_sum_destroyed(void) { return __atomic_load_n(&values_destroyed, __ATOMIC_RELAXED); }

/* Calls back from the middle of a function that uses errno. */
int values_errno_over(int value, void (*suspend)(void)) {
    errno = value;
    suspend();
    return errno;
}
