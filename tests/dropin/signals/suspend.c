// sigsuspend, ppoll and pselect open the mask for the time of the call only: no signal is lost
// between the test of a flag and the call.
#include "../check.h"
#include <poll.h>
#include <signal.h>
#include <sys/select.h>

enum { THREADS = 3, ROUNDS = 100 };
static __thread volatile sig_atomic_t got;
static int done[THREADS];

static void handle(UNUSED int signal) { got = 1; }

static void *run(void *argument) {
    long self = (long)argument;
    sigset_t none, now;
    sigemptyset(&none);
    for (int round = 1; round <= ROUNDS; round++) {
        while (!got) {
            if (self == 0) EQUAL(sigsuspend(&none), -1);
            if (self == 1) EQUAL(ppoll(NULL, 0, NULL, &none), -1);
            if (self == 2) EQUAL(pselect(0, NULL, NULL, NULL, NULL, &none), -1);
            EQUAL(errno, EINTR);
        }
        EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
        EQUAL(sigismember(&now, SIGUSR1), 1);
        got = 0;
        __atomic_store_n(&done[self], round, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigaction(SIGUSR1, &action, NULL));
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++) EQUAL(pthread_kill(threads[i], SIGUSR1), 0);
        for (int i = 0; i < THREADS; i++) {
            while (__atomic_load_n(&done[i], __ATOMIC_ACQUIRE) < round) pause_ms(0);
        }
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
