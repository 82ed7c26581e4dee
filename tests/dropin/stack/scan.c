// A conservative scan of a suspended thread's stack, between the bounds of pthread_getattr_np,
// finds a pointer that only that thread has, and its stopped state by a signal's handler.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

enum { THREADS = 8 };
static sem_t never, stopped;
static pthread_barrier_t barrier;
static char *lows[THREADS];
static size_t sizes[THREADS];
static char *volatile tops[THREADS];
static __thread long self;
static int go_on;

// As collectors stop threads: the handler tells how deep the stack is, and waits.
static void stop(UNUSED int signal) {
    char here;
    int kept = errno;
    tops[self] = &here;
    sem_post(&stopped);
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGUSR2);
    while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE)) sigsuspend(&set);
    errno = kept;
}

static void resume(UNUSED int signal) {}

static unsigned long secret(long thread) { return 0x5ec2e70000000000ul + (unsigned long)thread * 8; }

static void *run(void *argument) {
    self = (long)argument;
    pthread_attr_t attributes;
    EQUAL(pthread_getattr_np(pthread_self(), &attributes), 0);
    EQUAL(pthread_attr_getstack(&attributes, (void **)&lows[self], &sizes[self]), 0);
    volatile unsigned long hidden = secret(self);
    pthread_barrier_wait(&barrier);
    while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE)) {
        if (self % 2) pause_ms(1);
        else sem_wait(&never);
    }
    EQUAL(hidden, secret(self));
    return NULL;
}

static void scan(long thread) {
    CHECK(tops[thread] > lows[thread] && tops[thread] < lows[thread] + sizes[thread]);
    unsigned long *word = (unsigned long *)((unsigned long)tops[thread] & ~7ul);
    unsigned long *end = (unsigned long *)(lows[thread] + sizes[thread]);
    for (; word < end; word++) {
        if (*word == secret(thread)) return;
    }
    FAIL("the stack of thread %ld does not hold its pointer", thread);
}

int main(void) {
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    MUST(sigaction(SIGUSR1, &action, NULL));
    action.sa_handler = resume;
    MUST(sigaction(SIGUSR2, &action, NULL));
    MUST(sem_init(&never, 0, 0));
    MUST(sem_init(&stopped, 0, 0));
    EQUAL(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++) EQUAL(pthread_kill(threads[i], SIGUSR1), 0);
    for (int i = 0; i < THREADS; i++) MUST(sem_wait(&stopped));
    for (long i = 0; i < THREADS; i++) scan(i);
    __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++) {
        EQUAL(pthread_kill(threads[i], SIGUSR2), 0);
        MUST(sem_post(&never));
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
