// A new thread has the signal mask of its creator, no pending signals and no alternate stack,
// although the last thread had all of these.
#include "../check.h"
#include <signal.h>

static void *spoil(UNUSED void *argument) {
    static __thread char stack[16384];
    sigset_t set;
    sigfillset(&set);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    EQUAL(pthread_kill(pthread_self(), SIGUSR1), 0);
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    MUST(sigaltstack(&alternate, NULL));
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    sigset_t set;
    EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
    for (int signal = 1; signal < SIGRTMIN; signal++) {
        EQUAL(sigismember(&set, signal) == 1, signal == SIGUSR2);
    }
    sigpending(&set);
    EQUAL(sigismember(&set, SIGUSR1), 0);
    stack_t alternate;
    MUST(sigaltstack(NULL, &alternate));
    CHECK(alternate.ss_flags & SS_DISABLE);
    return NULL;
}

int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EQUAL(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
    spoil_and_inspect(spoil, inspect);
    return 0;
}
