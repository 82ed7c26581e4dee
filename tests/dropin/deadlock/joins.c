// Three threads wait in a circle: the first two each for the end of the next, and the third for a
// mutex that the first holds. A signal is handled, which ends none of these waits.
#include "../check.h"
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_t second, third;

static void handle(UNUSED int signal) {}

static void *first(UNUSED void *argument) {
    pthread_setname_np(pthread_self(), "first");
    EQUAL(pthread_mutex_lock(&lock), 0);
    pthread_barrier_wait(&barrier);
    join(second);
    return NULL;
}

static void *run_second(UNUSED void *argument) {
    pthread_setname_np(pthread_self(), "second");
    pthread_barrier_wait(&barrier);
    join(third);
    return NULL;
}

static void *run_third(UNUSED void *argument) {
    pthread_setname_np(pthread_self(), "third");
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&lock);
    FAIL("a lock that is never free was taken");
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    EQUAL(pthread_barrier_init(&barrier, NULL, 4), 0);
    third = start(run_third, NULL);
    second = start(run_second, NULL);
    pthread_t thread = start(first, NULL);
    pthread_barrier_wait(&barrier);
    join(thread);
    return 1;
}
