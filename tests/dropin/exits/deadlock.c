// Threads that wait for each other stay suspended, without a wake-up or an end of the process,
// until a signal arrives: a handler of the alarm ends it.
#include "../check.h"
#include <signal.h>
#include <sys/time.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void handle(UNUSED int signal) { _exit(0); }

static void *run(void *argument) {
    EQUAL(pthread_mutex_lock(argument ? &one : &two), 0);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(argument ? &two : &one);
    FAIL("a lock that is never free was taken");
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGALRM, &action, NULL));
    EQUAL(pthread_barrier_init(&barrier, NULL, 3), 0);
    pthread_t first = start(run, NULL);
    start(run, &one);
    pthread_barrier_wait(&barrier);
    struct itimerval soon = {.it_value = {0, 200000}};
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    join(first);
    return 1;
}
