// Many threads on a mutex that is always held: each gets it, and the owner may end or block in it.
#include "../check.h"

enum { THREADS = 200 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int arrived[THREADS], total;

static void *run(void *argument) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    arrived[(long)argument]++;
    if (++total % 20 == 0) pause_ms(1);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    EQUAL(pthread_mutex_lock(&mutex), 0);
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    EQUAL(total, 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    for (int i = 0; i < THREADS; i++) EQUAL(arrived[i], 1);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
