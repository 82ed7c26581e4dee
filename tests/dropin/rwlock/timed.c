// Timed locks end with ETIMEDOUT, not before the deadline on their clock; try locks fail at once,
// and a second lock by the writer is a deadlock.
#include "../check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void expire(int (*acquire)(pthread_rwlock_t *, clockid_t, const struct timespec *)) {
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int i = 0; i < 2; i++) {
        struct timespec soon = in_ms(clocks[i], 20);
        EQUAL(acquire(&lock, clocks[i], &soon), ETIMEDOUT);
        CHECK(is_reached(clocks[i], soon));
    }
}

static void *beside_writer(UNUSED void *argument) {
    EQUAL(pthread_rwlock_tryrdlock(&lock), EBUSY);
    EQUAL(pthread_rwlock_trywrlock(&lock), EBUSY);
    expire(pthread_rwlock_clockrdlock);
    expire(pthread_rwlock_clockwrlock);
    struct timespec past = {1, 0}, bad = {1, -1};
    EQUAL(pthread_rwlock_timedrdlock(&lock, &past), ETIMEDOUT);
    EQUAL(pthread_rwlock_timedwrlock(&lock, &past), ETIMEDOUT);
    EQUAL(pthread_rwlock_timedrdlock(&lock, &bad), EINVAL);
    EQUAL(pthread_rwlock_timedwrlock(&lock, &bad), EINVAL);
    return NULL;
}

static void *beside_reader(UNUSED void *argument) {
    EQUAL(pthread_rwlock_tryrdlock(&lock), 0);
    EQUAL(pthread_rwlock_trywrlock(&lock), EBUSY);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    expire(pthread_rwlock_clockwrlock);
    // The writer that gave up blocks no reader.
    EQUAL(pthread_rwlock_rdlock(&lock), 0);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

static void *in_time(UNUSED void *argument) {
    struct timespec far = in_ms(CLOCK_REALTIME, 3600000);
    EQUAL(pthread_rwlock_timedwrlock(&lock, &far), 0);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    EQUAL(pthread_rwlock_timedrdlock(&lock, &far), 0);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

int main(void) {
    EQUAL(pthread_rwlock_wrlock(&lock), 0);
    EQUAL(pthread_rwlock_wrlock(&lock), EDEADLK);
    EQUAL(pthread_rwlock_rdlock(&lock), EDEADLK);
    join(start(beside_writer, NULL));
    pthread_t waiting = start(in_time, NULL);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    join(waiting);
    EQUAL(pthread_rwlock_rdlock(&lock), 0);
    join(start(beside_reader, NULL));
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    EQUAL(pthread_rwlock_destroy(&lock), 0);
    return 0;
}
