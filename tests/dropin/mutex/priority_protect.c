// A mutex with a priority ceiling lends its owner that priority; all threads of the policy get it.
#include "../check.h"
#include <sched.h>

enum { THREADS = 4, ROUNDS = 200, CEILING = 3 };
static pthread_mutex_t mutex;
static long total;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        struct sched_param parameters;
        EQUAL(sched_getparam(0, &parameters), 0);
        EQUAL(parameters.sched_priority, CEILING);
        total++;
        EQUAL(pthread_mutex_unlock(&mutex), 0);
        EQUAL(sched_getparam(0, &parameters), 0);
        EQUAL(parameters.sched_priority, 1);
    }
    return NULL;
}

int main(void) {
    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT), 0);
    EQUAL(pthread_mutexattr_setprioceiling(&attributes, CEILING), 0);
    EQUAL(pthread_mutex_init(&mutex, &attributes), 0);
    int ceiling;
    EQUAL(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
    EQUAL(ceiling, CEILING);

    pthread_attr_t real_time;
    struct sched_param parameters = {.sched_priority = 1};
    EQUAL(pthread_attr_init(&real_time), 0);
    EQUAL(pthread_attr_setinheritsched(&real_time, PTHREAD_EXPLICIT_SCHED), 0);
    EQUAL(pthread_attr_setschedpolicy(&real_time, SCHED_FIFO), 0);
    EQUAL(pthread_attr_setschedparam(&real_time, &parameters), 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        int result = pthread_create(&threads[i], &real_time, run, NULL);
        if (result == EPERM) SKIP("real-time priorities are forbidden: run as root");
        EQUAL(result, 0);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    EQUAL(total, THREADS * ROUNDS);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
