// Masks, handlers and SIGSYS do not keep the program from calls by its own instructions.
#include "../check.h"
#include "../instruction.h"
#include <signal.h>

static int word, waiting, handled, of_sandbox;
static pthread_t waiter;

static void calls(UNUSED int signal) {
    EQUAL(call(SYS_gettid, 0, 0, 0, 0), gettid());
    struct timespec time;
    MUST(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
    __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static void of_sigsys(UNUSED int signal) { __atomic_add_fetch(&of_sandbox, 1, __ATOMIC_SEQ_CST); }

static void *waits(UNUSED void *argument) {
    __atomic_store_n(&waiting, 1, __ATOMIC_SEQ_CST);
    long result;
    do result = futex(&word, FUTEX_WAIT_PRIVATE, 0);
    while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) == 0);
    EQUAL(result, -EINTR);
    return NULL;
}

static void *blocks(UNUSED void *argument) {
    sigset_t all, before, now;
    sigfillset(&all);
    EQUAL(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    EQUAL(call(SYS_gettid, 0, 0, 0, 0), gettid());
    EQUAL(pthread_sigmask(SIG_SETMASK, &before, &now), 0);
    EQUAL(sigismember(&now, SIGUSR1), 1);
    EQUAL(call(SYS_gettid, 0, 0, 0, 0), gettid());
    EQUAL(pthread_kill(pthread_self(), SIGUSR2), 0);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = calls}, before;
    sigfillset(&action.sa_mask);
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGUSR2, &action, NULL));
    MUST(sigaction(SIGSYS, NULL, &before));
    CHECK(before.sa_handler == SIG_DFL);
    action.sa_handler = of_sigsys;
    MUST(sigaction(SIGSYS, &action, NULL));
    MUST(sigaction(SIGSYS, NULL, &before));
    CHECK(before.sa_handler == of_sigsys);
    run_threads(4, blocks);
    blocks(NULL);
    EQUAL(handled, 5);
    EQUAL(raise(SIGSYS), 0);
    EQUAL(of_sandbox, 1);
    CHECK(signal(SIGSYS, SIG_IGN) == of_sigsys);
    EQUAL(raise(SIGSYS), 0);
    EQUAL(of_sandbox, 1);
    handled = 0;
    waiter = start(waits, NULL);
    while (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST)) pause_ms(1);
    // The first one may come before the wait, which then has to be ended by a later one.
    while (pthread_tryjoin_np(waiter, NULL) != 0) {
        EQUAL(pthread_kill(waiter, SIGUSR1), 0);
        pause_ms(1);
    }
    return 0;
}
