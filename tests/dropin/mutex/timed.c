// A timed lock of a held mutex ends with ETIMEDOUT, not before its deadline, on either clock; a
// free mutex is taken with any deadline, and only a call that has to wait refuses a bad one.
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *late(UNUSED void *argument) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 30);
    EQUAL(pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
    CHECK(is_reached(CLOCK_REALTIME, soon));
    soon = in_ms(CLOCK_MONOTONIC, 30);
    EQUAL(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
    CHECK(is_reached(CLOCK_MONOTONIC, soon));
    struct timespec past = {1, 0}, bad = {in_ms(CLOCK_REALTIME, 0).tv_sec + 9, 1000000000};
    EQUAL(pthread_mutex_timedlock(&mutex, &past), ETIMEDOUT);
    EQUAL(pthread_mutex_timedlock(&mutex, &bad), EINVAL);
    EQUAL(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &soon), EINVAL);
    return NULL;
}

static void *in_time(UNUSED void *argument) {
    struct timespec far = in_ms(CLOCK_REALTIME, 3600000);
    EQUAL(pthread_mutex_timedlock(&mutex, &far), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

int main(void) {
    struct timespec past = {1, 0}, bad = {1, 1000000000};
    EQUAL(pthread_mutex_timedlock(&mutex, &past), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_timedlock(&mutex, &bad), 0);
    join(start(late, NULL));
    pthread_t waiting = start(in_time, NULL);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    join(waiting);
    return 0;
}
