// sem_post is async-signal-safe: a handler posts for threads that wait, at any point of a thread.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

enum { THREADS = 4, ROUNDS = 500 };
static sem_t work, done;

static void post(UNUSED int signal) {
    int kept = errno;
    sem_post(&work);
    errno = kept;
}

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore)) EQUAL(errno, EINTR);
}

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        wait_for(&work);
        MUST(sem_post(&done));
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = post};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sem_init(&work, 0, 0));
    MUST(sem_init(&done, 0, 0));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
    for (int i = 0; i < THREADS * ROUNDS; i++) {
        // Signals of one number merge while one is pending: each is awaited before the next.
        MUST(kill(getpid(), SIGUSR1));
        wait_for(&done);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    int left;
    MUST(sem_getvalue(&work, &left));
    EQUAL(left, 0);
    return 0;
}
