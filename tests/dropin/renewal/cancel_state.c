// A new thread can be cancelled, at cancellation points, and no request of the last one is left.
#include "../check.h"

static void *spoil(UNUSED void *argument) {
    int old;
    EQUAL(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
    EQUAL(pthread_cancel(pthread_self()), 0);
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    int old;
    pthread_testcancel();
    EQUAL(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
    EQUAL(old, PTHREAD_CANCEL_ENABLE);
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
    EQUAL(old, PTHREAD_CANCEL_DEFERRED);
    pause_ms(0);
    return &inspect;
}

static void *ends_by_cancel(UNUSED void *argument) {
    EQUAL(pthread_cancel(pthread_self()), 0);
    pthread_testcancel();
    return NULL;
}

static void *reports(UNUSED void *argument) {
    pthread_t thread = start(inspect, NULL);
    CHECK(join(thread) == (void *)&inspect);
    return inspect(NULL);
}

int main(void) {
    spoil_and_inspect(spoil, inspect);
    spoil_and_inspect(ends_by_cancel, reports);
    return 0;
}
