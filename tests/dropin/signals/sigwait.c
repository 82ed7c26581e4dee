// sigwait, sigwaitinfo, sigtimedwait and signalfd take blocked signals: one of the process wakes
// one thread, and one for a thread wakes that thread.
#include "../check.h"
#include <signal.h>
#include <sys/signalfd.h>

enum { THREADS = 4, EACH = 25 };
static sigset_t set;
static int taken;

static void *wait_for_process(UNUSED void *argument) {
    for (int i = 0; i < EACH; i++) {
        int signal;
        EQUAL(sigwait(&set, &signal), 0);
        EQUAL(signal, SIGUSR1);
        __atomic_add_fetch(&taken, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *wait_for_own(void *argument) {
    siginfo_t info;
    while (sigwaitinfo(&set, &info) == -1) EQUAL(errno, EINTR);
    EQUAL(info.si_signo, SIGUSR2);
    EQUAL(info.si_code, SI_QUEUE);
    EQUAL(info.si_value.sival_ptr, argument);
    struct timespec soon = {0, 20000000}, end = in_ms(CLOCK_MONOTONIC, 20);
    EQUAL(sigtimedwait(&set, &info, &soon), -1);
    EQUAL(errno, EAGAIN);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    return argument;
}

static void *read_signal(UNUSED void *argument) {
    int descriptor = (int)MUST(signalfd(-1, &set, SFD_CLOEXEC));
    struct signalfd_siginfo info;
    EQUAL(read(descriptor, &info, sizeof info), sizeof info);
    EQUAL(info.ssi_signo, SIGUSR2);
    MUST(close(descriptor));
    return NULL;
}

int main(void) {
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(wait_for_process, NULL);
    for (int i = 1; i <= THREADS * EACH; i++) {
        MUST(kill(getpid(), SIGUSR1));
        while (__atomic_load_n(&taken, __ATOMIC_ACQUIRE) < i) pause_ms(0);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    for (long i = 0; i < THREADS; i++) threads[i] = start(wait_for_own, (void *)i);
    for (long i = THREADS; i-- > 0;) {
        union sigval value = {.sival_ptr = (void *)i};
        EQUAL(pthread_sigqueue(threads[i], SIGUSR2, value), 0);
    }
    for (long i = 0; i < THREADS; i++) EQUAL(join(threads[i]), i);
    threads[0] = start(read_signal, NULL);
    EQUAL(pthread_kill(threads[0], SIGUSR2), 0);
    join(threads[0]);
    return 0;
}
