// select and pselect: errors, which leave the sets as they were; events that no set asks for; times
// that are over.
#include "../check.h"
#include <sys/select.h>

static int idle[2], closed[2];

static fd_set set_of(int descriptor) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(descriptor, &set);
    return set;
}

static void *ends_by_errors(UNUSED void *argument) {
    fd_set set = set_of(idle[0]);
    EQUAL(select(-1, &set, NULL, NULL, NULL), -1);
    EQUAL(errno, EINVAL);
    struct timeval negative = {-1, 0};
    EQUAL(select(idle[0] + 1, &set, NULL, NULL, &negative), -1);
    EQUAL(errno, EINVAL);
    struct timespec long_ns = {0, 1000000000};
    EQUAL(pselect(idle[0] + 1, &set, NULL, NULL, &long_ns, NULL), -1);
    EQUAL(errno, EINVAL);
    CHECK(FD_ISSET(idle[0], &set));
    FD_SET(60, &set);
    EQUAL(select(61, &set, NULL, NULL, NULL), -1);
    EQUAL(errno, EBADF);
    CHECK(FD_ISSET(idle[0], &set) && FD_ISSET(60, &set));

    // The writer of this pipe is gone: that makes it readable, and is nothing exceptional.
    set = set_of(closed[0]);
    EQUAL(select(closed[0] + 1, &set, NULL, NULL, NULL), 1);
    struct timespec end = in_ms(CLOCK_MONOTONIC, 50);
    struct timeval time = {0, 50000};
    EQUAL(select(closed[0] + 1, NULL, NULL, &set, &time), 0);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    CHECK(!FD_ISSET(closed[0], &set));
    EQUAL(time.tv_sec, 0);
    EQUAL(time.tv_usec, 0);

    // As a sleep.
    end = in_ms(CLOCK_MONOTONIC, 20);
    time.tv_usec = 20000;
    EQUAL(select(0, NULL, NULL, NULL, &time), 0);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    return NULL;
}

int main(void) {
    MUST(pipe(idle));
    MUST(pipe(closed));
    MUST(close(closed[1]));
    join(start(ends_by_errors, NULL));
    return 0;
}
