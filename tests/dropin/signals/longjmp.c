// A handler may leave a suspended call by siglongjmp: the thread goes on, and can suspend again.
#include "../check.h"
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>

enum { ROUNDS = 30 };
static __thread sigjmp_buf back;
static int left;
static sem_t go_on;

static void handle(UNUSED int signal) { siglongjmp(back, 1); }

static void *run(UNUSED void *argument) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (volatile int round = 0; round < ROUNDS; round++) {
        if (sigsetjmp(back, 1) == 0) {
            EQUAL(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
            for (;;) pause_ms(3600000);
        }
        EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
        __atomic_add_fetch(&left, 1, __ATOMIC_RELEASE);
        while (sem_wait(&go_on)) EQUAL(errno, EINTR);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sem_init(&go_on, 0, 0));
    // Threads inherit the mask: the first signal comes after the first sigsetjmp.
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    pthread_t thread = start(run, NULL);
    for (int round = 1; round <= ROUNDS; round++) {
        EQUAL(pthread_kill(thread, SIGUSR1), 0);
        while (__atomic_load_n(&left, __ATOMIC_ACQUIRE) < round) pause_ms(0);
        MUST(sem_post(&go_on));
    }
    join(thread);
    return 0;
}
