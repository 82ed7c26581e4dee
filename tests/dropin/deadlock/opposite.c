// Two threads that lock two mutexes in opposite order wait for each other for good, and the initial
// thread for one of them.
#include "../check.h"

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t barrier;

static void *run(void *argument) {
    pthread_mutex_t *first = argument, *second = first == locks ? locks + 1 : locks;
    pthread_setname_np(pthread_self(), first == locks ? "up" : "down");
    EQUAL(pthread_mutex_lock(first), 0);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(second);
    FAIL("a lock that is never free was taken");
}

int main(void) {
    EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
    pthread_t up = start(run, locks);
    start(run, locks + 1);
    join(up);
    return 1;
}
