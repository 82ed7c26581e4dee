// Each thread has its mask: a blocked signal stays pending in it over suspensions, runs at the
// unblock, and a signal of the process goes to a thread that does not block it.
#include "../check.h"
#include <sched.h>
#include <signal.h>

static __thread int handled;
static pthread_barrier_t barrier;
static pthread_t receiver;
static int total;

static void handle(UNUSED int signal) {
    handled++;
    CHECK(receiver == 0 || pthread_equal(pthread_self(), receiver));
    __atomic_add_fetch(&total, 1, __ATOMIC_RELEASE);
}

static void set_mask(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    EQUAL(pthread_sigmask(how, &set, NULL), 0);
}

static int is_pending(int signal) {
    sigset_t set;
    MUST(sigpending(&set));
    return sigismember(&set, signal);
}

static void *blocks(UNUSED void *argument) {
    set_mask(SIG_BLOCK, SIGUSR1);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 20; i++) {
        sched_yield();
        if (i % 10 == 0) pause_ms(1);
        EQUAL(handled, 0);
        EQUAL(is_pending(SIGUSR1), 1);
        EQUAL(is_pending(SIGUSR2), 0);
    }
    set_mask(SIG_UNBLOCK, SIGUSR1);
    EQUAL(handled, 1);
    EQUAL(is_pending(SIGUSR1), 0);
    return NULL;
}

static void *receives(UNUSED void *argument) {
    set_mask(SIG_UNBLOCK, SIGUSR2);
    pthread_barrier_wait(&barrier);
    while (__atomic_load_n(&total, __ATOMIC_ACQUIRE) < 20) pause_ms(1);
    EQUAL(handled, 20);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGUSR2, &action, NULL));
    EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
    pthread_t thread = start(blocks, NULL);
    pthread_barrier_wait(&barrier);
    EQUAL(pthread_kill(thread, SIGUSR1), 0);
    pthread_barrier_wait(&barrier);
    join(thread);

    set_mask(SIG_BLOCK, SIGUSR2);
    total = 0;
    receiver = start(receives, NULL);
    pthread_barrier_wait(&barrier);
    for (int i = 1; i <= 20; i++) {
        MUST(kill(getpid(), SIGUSR2));
        while (__atomic_load_n(&total, __ATOMIC_ACQUIRE) < i) pause_ms(0);
    }
    join(receiver);
    return 0;
}
