// The handlers of a process that ends with its last thread run with the signals of that thread: one
// that raises a signal ends the process by it.
#include "../check.h"
#include <signal.h>

static void raises(void) { MUST(kill(getpid(), SIGUSR1)); }

static void *lasts(UNUSED void *argument) {
    pause_ms(20);
    return NULL;
}

int main(void) {
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        MUST(atexit(raises));
        start(lasts, NULL);
        pthread_exit(NULL);
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status));
    EQUAL(WTERMSIG(status), SIGUSR1);
    return 0;
}
