// Process-shared and named semaphores hand a token between threads of two processes.
#include "../check.h"
#include <fcntl.h>
#include <semaphore.h>

enum { ROUNDS = 1000 };
static sem_t *semaphores[2];

static void *run(void *argument) {
    long self = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        MUST(sem_wait(semaphores[self]));
        MUST(sem_post(semaphores[1 - self]));
    }
    return NULL;
}

static void run_in_two_processes(void) {
    pid_t child = MUST(fork());
    join(start(run, (void *)(long)(child == 0)));
    if (child == 0) _exit(0);
    EQUAL(status_of(child), 0);
}

int main(void) {
    sem_t *shared = shared_page();
    for (unsigned i = 0; i < 2; i++) {
        semaphores[i] = &shared[i];
        MUST(sem_init(semaphores[i], 1, 1 - i));
    }
    run_in_two_processes();
    for (unsigned i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "/daiko-dropin-%d-%u", (int)getpid(), i);
        semaphores[i] = sem_open(name, O_CREAT | O_EXCL, 0600, 1 - i);
        if (semaphores[i] == SEM_FAILED) SKIP("no named semaphores: errno %d", errno);
        MUST(sem_unlink(name));
    }
    run_in_two_processes();
    MUST(sem_close(semaphores[0]));
    MUST(sem_close(semaphores[1]));
    return 0;
}
