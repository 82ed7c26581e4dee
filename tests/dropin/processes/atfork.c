// Handlers of pthread_atfork run in the order of POSIX, may lock and suspend, and keep a mutex
// usable in the child although another thread uses it all the time.
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread char order[16];
static int finish;

static void prepare_1(void) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    strcat(order, "1");
}
static void prepare_2(void) {
    pause_ms(1);
    strcat(order, "2");
}
static void parent_1(void) {
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    strcat(order, "p");
}
static void parent_2(void) { strcat(order, "q"); }
static void child_1(void) {
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    strcat(order, "c");
}
static void child_2(void) { strcat(order, "d"); }

static void *disturb(UNUSED void *argument) {
    while (!__atomic_load_n(&finish, __ATOMIC_RELAXED)) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
        pause_ms(0);
    }
    return NULL;
}

static void *forks(UNUSED void *argument) {
    for (int round = 0; round < 10; round++) {
        order[0] = 0;
        pid_t child = MUST(fork());
        if (child == 0) {
            if (strcmp(order, "21cd") != 0) FAIL("the order in the child is %s", order);
            finish = 1;
            join(start(disturb, NULL));
            EQUAL(pthread_mutex_trylock(&mutex), 0);
            _exit(0);
        }
        if (strcmp(order, "21pq") != 0) FAIL("the order in the parent is %s", order);
        EQUAL(status_of(child), 0);
    }
    return NULL;
}

int main(void) {
    EQUAL(pthread_atfork(prepare_1, parent_1, child_1), 0);
    EQUAL(pthread_atfork(prepare_2, parent_2, child_2), 0);
    pthread_t other = start(disturb, NULL), forking = start(forks, NULL);
    join(forking);
    forks(NULL);
    __atomic_store_n(&finish, 1, __ATOMIC_RELAXED);
    join(other);
    return 0;
}
