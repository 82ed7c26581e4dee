// A mutex with priority inheritance excludes, is owned by the thread that locked it, and times out.
#include "../check.h"

enum { THREADS = 4, ROUNDS = 300 };
static pthread_mutex_t mutex;
static long total;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        total++;
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static void *other(UNUSED void *argument) {
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
    EQUAL(pthread_mutex_unlock(&mutex), EPERM);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    EQUAL(pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
    CHECK(is_reached(CLOCK_REALTIME, soon));
    return NULL;
}

int main(void) {
    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), 0);
    EQUAL(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK), 0);
    int result = pthread_mutex_init(&mutex, &attributes);
    if (result == ENOTSUP) SKIP("this kernel has no mutexes with priority inheritance");
    EQUAL(result, 0);
    pthread_t threads[THREADS];
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_lock(&mutex), EDEADLK);
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    EQUAL(total, THREADS * ROUNDS);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    join(start(other, NULL));
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
