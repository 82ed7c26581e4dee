// A handler interrupts a post or a wait of a semaphore, and posts the same semaphore; it asks for a
// thread while its thread starts and joins threads.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>

enum { ROUNDS = 50000, PERIOD_US = 50 };
static sem_t work, done;
static pthread_t waiter;
static volatile int posted_by_handler;

static void post(UNUSED int signal) {
    int kept = errno;
    sem_post(&work);
    pthread_kill(waiter, 0);
    posted_by_handler++;
    errno = kept;
}

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore)) EQUAL(errno, EINTR);
}

static void *run(void *argument) {
    for (;;) {
        wait_for(&work);
        if (__atomic_load_n((int *)argument, __ATOMIC_ACQUIRE)) return NULL;
        MUST(sem_post(&done));
    }
}

static void *nothing(void *argument) { return argument; }

int main(void) {
    MUST(sem_init(&work, 0, 0));
    MUST(sem_init(&done, 0, 0));
    int ends = 0;
    waiter = start(run, &ends);
    struct sigaction action = {.sa_handler = post, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, NULL));
    struct itimerval period = {{0, PERIOD_US}, {0, PERIOD_US}}, none = {0};
    MUST(setitimer(ITIMER_REAL, &period, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        MUST(sem_post(&work));
        wait_for(&done);
        if (i % 16 == 0) join(start(nothing, NULL));
    }
    MUST(setitimer(ITIMER_REAL, &none, NULL));
    CHECK(posted_by_handler > 0);
    for (int i = 0; i < posted_by_handler; i++) wait_for(&done);
    __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
    MUST(sem_post(&work));
    join(waiter);
    return 0;
}
