// ITIMER_PROF and ITIMER_REAL interrupt the computing threads of a process again and again; the
// handlers run with the thread-locals of a thread of the program.
#include "../check.h"
#include <signal.h>
#include <sys/time.h>

enum { THREADS = 4, TICKS = 8 };
static __thread int self;
static int ticks[2];

static void handle(int signal) {
    CHECK(self > 0 && self <= THREADS + 1);
    __atomic_add_fetch(&ticks[signal == SIGPROF], 1, __ATOMIC_RELAXED);
}

static int has_enough(void) {
    return __atomic_load_n(&ticks[0], __ATOMIC_RELAXED) >= TICKS &&
           __atomic_load_n(&ticks[1], __ATOMIC_RELAXED) >= TICKS;
}

static void *run(void *argument) {
    self = (int)(long)argument;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGALRM);
    EQUAL(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    volatile unsigned work = 0;
    while (!has_enough()) {
        for (int i = 0; i < 1000; i++) work += (unsigned)i;
    }
    EQUAL(self, argument);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGPROF, &action, NULL));
    MUST(sigaction(SIGALRM, &action, NULL));
    self = THREADS + 1;
    pthread_t threads[THREADS];
    // A thread has its number before it takes signals.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGALRM);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)(i + 1));
    EQUAL(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    struct itimerval period = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
    MUST(setitimer(ITIMER_PROF, &period, NULL));
    MUST(setitimer(ITIMER_REAL, &period, NULL));
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    MUST(setitimer(ITIMER_PROF, &none, NULL));
    MUST(setitimer(ITIMER_REAL, &none, NULL));
    return 0;
}
