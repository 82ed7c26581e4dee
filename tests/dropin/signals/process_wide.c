// A signal of the process runs its handler in a thread that leaves it open: one that waits, or one
// that computes, once main blocks it.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

enum { SIGNALS = 50 };
static pthread_t initial;
static sem_t handled, ends;
static volatile int is_over;

static void handle(UNUSED int signal) {
    if (pthread_equal(pthread_self(), initial)) FAIL("main handles a signal that it blocks");
    sem_post(&handled);
}

static void *waits(UNUSED void *argument) {
    while (sem_wait(&ends) != 0) EQUAL(errno, EINTR);
    return NULL;
}

static void *computes(UNUSED void *argument) {
    while (!is_over) {}
    return NULL;
}

static void take_by(void *(*run)(void *)) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_t thread = start(run, NULL);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    for (int i = 0; i < SIGNALS; i++) {
        MUST(kill(getpid(), SIGUSR1));
        MUST(sem_wait(&handled));
    }
    is_over = 1;
    MUST(sem_post(&ends));
    join(thread);
    EQUAL(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
}

int main(void) {
    initial = pthread_self();
    MUST(sem_init(&handled, 0, 0));
    MUST(sem_init(&ends, 0, 0));
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    take_by(waits);
    is_over = 0;
    take_by(computes);
    return 0;
}
