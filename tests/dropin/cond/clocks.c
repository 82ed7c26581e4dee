// Timed waits end with ETIMEDOUT, not before the deadline on the clock of the condition variable or
// of the call, and hold the mutex again; bad deadlines and clocks are refused.
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

static void expire(pthread_cond_t *cond, clockid_t clock) {
    struct timespec soon = in_ms(clock, 30);
    int result;
    while ((result = pthread_cond_timedwait(cond, &mutex, &soon)) == 0) {}
    EQUAL(result, ETIMEDOUT);
    CHECK(is_reached(clock, soon));
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
}

static void *run(UNUSED void *argument) {
    pthread_cond_t real = PTHREAD_COND_INITIALIZER, monotonic;
    pthread_condattr_t attributes;
    EQUAL(pthread_condattr_init(&attributes), 0);
    EQUAL(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC), 0);
    EQUAL(pthread_condattr_setclock(&attributes, CLOCK_PROCESS_CPUTIME_ID), EINVAL);
    EQUAL(pthread_cond_init(&monotonic, &attributes), 0);

    EQUAL(pthread_mutex_lock(&mutex), 0);
    expire(&real, CLOCK_REALTIME);
    expire(&monotonic, CLOCK_MONOTONIC);
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int i = 0; i < 4; i++) {
        struct timespec soon = in_ms(clocks[i % 2], 20);
        pthread_cond_t *cond = i < 2 ? &real : &monotonic;
        EQUAL(pthread_cond_clockwait(cond, &mutex, clocks[i % 2], &soon), ETIMEDOUT);
        CHECK(is_reached(clocks[i % 2], soon));
    }
    struct timespec past = {1, 0}, bad = {1, -1};
    EQUAL(pthread_cond_timedwait(&real, &mutex, &past), ETIMEDOUT);
    EQUAL(pthread_cond_timedwait(&monotonic, &mutex, &past), ETIMEDOUT);
    EQUAL(pthread_cond_timedwait(&real, &mutex, &bad), EINVAL);
    EQUAL(pthread_cond_clockwait(&real, &mutex, CLOCK_THREAD_CPUTIME_ID, &past), EINVAL);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_cond_destroy(&real), 0);
    EQUAL(pthread_cond_destroy(&monotonic), 0);
    return NULL;
}

int main(void) {
    join(start(run, NULL));
    run(NULL);
    return 0;
}
