// While cancellation is disabled, a request stays pending through cancellation points, and takes
// effect at the first one after it is enabled; calls that are no such points never act on it.
#include "../check.h"
#include <sched.h>

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int reached;

static void *run(UNUSED void *argument) {
    int old;
    EQUAL(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
    EQUAL(old, PTHREAD_CANCEL_ENABLE);
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
    EQUAL(old, PTHREAD_CANCEL_DEFERRED);
    EQUAL(pthread_setcancelstate(77, &old), EINVAL);
    EQUAL(pthread_setcanceltype(77, &old), EINVAL);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    // The request is there.
    pause_ms(2);
    pthread_testcancel();
    reached = 1;
    EQUAL(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
    EQUAL(old, PTHREAD_CANCEL_DISABLE);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    sched_yield();
    pthread_barrier_wait(&barrier);
    reached = 2;
    pthread_testcancel();
    reached = 3;
    return NULL;
}

int main(void) {
    EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
    pthread_t thread = start(run, NULL);
    pthread_barrier_wait(&barrier);
    EQUAL(pthread_cancel(thread), 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    CHECK(join(thread) == PTHREAD_CANCELED);
    EQUAL(reached, 2);
    return 0;
}
