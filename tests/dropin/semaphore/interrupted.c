// A handler without SA_RESTART ends sem_wait with EINTR; with SA_RESTART the wait goes on.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

static sem_t semaphore;
static volatile int ended, calls;
static pthread_t waiter;

static void handle(UNUSED int signal) { calls++; }

static void *fail(UNUSED void *argument) {
    EQUAL(sem_wait(&semaphore), -1);
    EQUAL(errno, EINTR);
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *restart(UNUSED void *argument) {
    MUST(sem_wait(&semaphore));
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sem_init(&semaphore, 0, 0));
    MUST(sigaction(SIGUSR1, &action, NULL));
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR2, &action, NULL));

    waiter = start(fail, NULL);
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
        EQUAL(pthread_kill(waiter, SIGUSR1), 0);
        pause_ms(1);
    }
    join(waiter);
    CHECK(calls > 0);

    waiter = start(restart, NULL);
    for (int i = 0; i < 20; i++) {
        int seen = calls;
        EQUAL(pthread_kill(waiter, SIGUSR2), 0);
        while (calls == seen) pause_ms(1);
    }
    MUST(sem_post(&semaphore));
    join(waiter);
    return 0;
}
