// FUTEX_WAIT has a relative timeout, FUTEX_WAIT_BITSET an absolute one on either clock: both end
// with ETIMEDOUT, not early, and bad times are refused.
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static int word;

static long futex(int operation, int value, const struct timespec *time) {
    return syscall(SYS_futex, &word, operation, value, time, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void expires(int operation, clockid_t clock) {
    struct timespec end = in_ms(clock, 20), relative = {0, 20000000};
    int is_relative = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT;
    EQUAL(futex(operation, 0, is_relative ? &relative : &end), -1);
    EQUAL(errno, ETIMEDOUT);
    CHECK(is_reached(clock, end));
}

static void *run(UNUSED void *argument) {
    expires(FUTEX_WAIT_PRIVATE, CLOCK_MONOTONIC);
    expires(FUTEX_WAIT, CLOCK_MONOTONIC);
    expires(FUTEX_WAIT_BITSET_PRIVATE, CLOCK_MONOTONIC);
    expires(FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, CLOCK_REALTIME);
    struct timespec past = {1, 0}, bad = {0, 1000000000}, negative = {-1, 0}, none = {0, 0};
    EQUAL(futex(FUTEX_WAIT_BITSET_PRIVATE, 0, &past), -1);
    EQUAL(errno, ETIMEDOUT);
    EQUAL(futex(FUTEX_WAIT_PRIVATE, 0, &none), -1);
    EQUAL(errno, ETIMEDOUT);
    EQUAL(futex(FUTEX_WAIT_PRIVATE, 0, &bad), -1);
    EQUAL(errno, EINVAL);
    EQUAL(futex(FUTEX_WAIT_PRIVATE, 0, &negative), -1);
    EQUAL(errno, EINVAL);
    EQUAL(futex(FUTEX_WAIT_PRIVATE, 1, &bad), -1);
    EQUAL(errno, EINVAL);
    EQUAL(futex(FUTEX_WAIT_PRIVATE, 1, &none), -1);
    EQUAL(errno, EAGAIN);
    return NULL;
}

static void *in_time(UNUSED void *argument) {
    struct timespec hour = {3600, 0};
    while (futex(FUTEX_WAIT_PRIVATE, 0, &hour) == -1) EQUAL(errno, EINTR);
    return NULL;
}

int main(void) {
    run_threads(6, run);
    pthread_t waiter = start(in_time, NULL);
    while (futex(FUTEX_WAKE_PRIVATE, 1, NULL) == 0) pause_ms(1);
    join(waiter);
    return 0;
}
