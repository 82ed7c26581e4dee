// A thread that waits for a signal goes on once it is sent, though all the rest of the program
// waits for it.
#include "../check.h"
#include <signal.h>

static void *run(void *argument) {
    int signal;
    EQUAL(write(1, "waits\n", 6), 6);
    EQUAL(sigwait(argument, &signal), 0);
    EQUAL(signal, SIGUSR1);
    return NULL;
}

int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    join(start(run, &set));
    return 0;
}
