// Handlers of pthread_atfork may close descriptors, and start and join threads: before the fork, in
// the parent, and in the child.
#include "../check.h"
#include <fcntl.h>

static int calls;

static void *nothing(void *argument) { return argument; }

static void uses(void) {
    EQUAL(close(1000), -1);
    EQUAL(errno, EBADF);
    MUST(close_range(500, 700, 0));
    join(start(nothing, NULL));
    calls++;
}

static void *forks(UNUSED void *argument) {
    for (int round = 1; round <= 5; round++) {
        pid_t child = MUST(fork());
        EQUAL(calls, 2 * round);
        if (child == 0) {
            join(start(nothing, NULL));
            _exit(3);
        }
        EQUAL(status_of(child), 3 << 8);
    }
    return NULL;
}

int main(void) {
    EQUAL(pthread_atfork(uses, uses, uses), 0);
    join(start(forks, NULL));
    calls = 0;
    forks(NULL);
    return 0;
}
