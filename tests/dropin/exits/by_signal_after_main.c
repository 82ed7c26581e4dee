// A signal ends a process whose initial thread has ended, while another thread waits.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

static int ends[2];

static void *run(UNUSED void *argument) {
    sem_t never;
    MUST(sem_init(&never, 0, 0));
    EQUAL(write(ends[1], "", 1), 1);
    for (;;) sem_wait(&never);
}

int main(void) {
    MUST(pipe(ends));
    int child = MUST(fork());
    if (child == 0) {
        start(run, NULL);
        pthread_exit(NULL);
    }
    char byte;
    EQUAL(read(ends[0], &byte, 1), 1);
    pause_ms(5);
    MUST(kill(child, SIGTERM));
    int status = status_of(child);
    CHECK(WIFSIGNALED(status));
    EQUAL(WTERMSIG(status), SIGTERM);
    return 0;
}
