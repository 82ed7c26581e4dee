// A handler posts for a thread, though all threads of the program wait for one another.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

static sem_t posted;

static void post(UNUSED int signal) { sem_post(&posted); }

static void *run(UNUSED void *argument) {
    EQUAL(write(1, "waits\n", 6), 6);
    while (sem_wait(&posted)) EQUAL(errno, EINTR);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = post};
    MUST(sem_init(&posted, 0, 0));
    MUST(sigaction(SIGUSR1, &action, NULL));
    join(start(run, NULL));
    return 0;
}
