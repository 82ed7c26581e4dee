// Policies, priorities and nice values belong to the thread: set by itself, by another thread or by
// attributes, they are read as set and stay over suspensions; threads of all kinds share locks.
#include "../check.h"
#include <sched.h>
#include <sys/resource.h>

enum { ROUNDS = 20 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int total;

static void has(int policy, int priority) {
    for (int i = 0; i < ROUNDS; i++) {
        int now;
        struct sched_param parameters;
        EQUAL(pthread_getschedparam(pthread_self(), &now, &parameters), 0);
        EQUAL(now, policy);
        EQUAL(parameters.sched_priority, priority);
        EQUAL(sched_getscheduler(0), policy);
        EQUAL(pthread_mutex_lock(&mutex), 0);
        total++;
        if (i % 4 == 0) pause_ms(1);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
}

static void *by_attributes(void *argument) {
    has((int)(long)argument, 2);
    return NULL;
}

static void *by_itself(UNUSED void *argument) {
    struct sched_param parameters = {.sched_priority = 0};
    has(SCHED_OTHER, 0);
    EQUAL(pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters), 0);
    has(SCHED_BATCH, 0);
    MUST(setpriority(PRIO_PROCESS, (id_t)gettid(), 19));
    pause_ms(1);
    EQUAL(getpriority(PRIO_PROCESS, 0), 19);
    return NULL;
}

static void *by_another(UNUSED void *argument) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    has(SCHED_RR, 3);
    return NULL;
}

int main(void) {
    if (sched_getscheduler(0) != SCHED_OTHER) SKIP("this process has another policy already");
    EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
    join(start(by_itself, NULL));
    pthread_attr_t attributes;
    struct sched_param parameters = {.sched_priority = 2};
    EQUAL(pthread_attr_init(&attributes), 0);
    EQUAL(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), 0);
    pthread_t threads[6];
    for (int i = 0; i < 4; i++) {
        int policy = i % 2 ? SCHED_FIFO : SCHED_RR;
        EQUAL(pthread_attr_setschedpolicy(&attributes, policy), 0);
        EQUAL(pthread_attr_setschedparam(&attributes, &parameters), 0);
        int result = pthread_create(&threads[i], &attributes, by_attributes, (void *)(long)policy);
        if (result == EPERM) SKIP("real-time priorities are forbidden: run as root");
        EQUAL(result, 0);
    }
    threads[4] = start(by_itself, NULL);
    threads[5] = start(by_another, NULL);
    pthread_barrier_wait(&barrier);
    parameters.sched_priority = 3;
    EQUAL(pthread_setschedparam(threads[5], SCHED_RR, &parameters), 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 6; i++) join(threads[i]);
    EQUAL(total, (2 + 4 + 2 + 1) * ROUNDS);
    return 0;
}
