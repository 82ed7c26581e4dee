// Asynchronous cancellation ends threads that compute and never call, runs cleanup handlers, and
// also ends a thread that is suspended, and one that cancels itself.
#include "../check.h"

static int cleaned, spinning;
static volatile unsigned long work;

static void clean(UNUSED void *argument) { __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED); }

static void compute(void) {
    __atomic_fetch_add(&spinning, 1, __ATOMIC_RELEASE);
    for (;;) work++;
}

// Handlers belong to calls that may unwind: the compiler must not see that this one has none.
static void (*volatile computes)(void) = compute;

static void *spin(UNUSED void *argument) {
    int old;
    pthread_cleanup_push(clean, NULL);
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
    computes();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *sleeper(UNUSED void *argument) {
    int old;
    pthread_cleanup_push(clean, NULL);
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
    __atomic_fetch_add(&spinning, 1, __ATOMIC_RELEASE);
    for (;;) pause_ms(1000);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *own(UNUSED void *argument) {
    int old;
    pthread_cleanup_push(clean, NULL);
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
    pthread_cancel(pthread_self());
    FAIL("a thread outlived its own cancel");
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel_when_it_runs(void *(*run)(void *), int threads) {
    pthread_t ids[8];
    cleaned = spinning = 0;
    for (int i = 0; i < threads; i++) ids[i] = start(run, NULL);
    for (int i = 0; i < threads; i++) {
        while (__atomic_load_n(&spinning, __ATOMIC_ACQUIRE) <= i) pause_ms(1);
    }
    for (int i = 0; i < threads; i++) EQUAL(pthread_cancel(ids[i]), 0);
    for (int i = 0; i < threads; i++) CHECK(join(ids[i]) == PTHREAD_CANCELED);
    EQUAL(cleaned, threads);
}

int main(void) {
    cancel_when_it_runs(sleeper, 8);
    for (int round = 0; round < 5; round++) cancel_when_it_runs(spin, 1);
    // More than there are workers, if these are few.
    cancel_when_it_runs(spin, 4);
    cleaned = 0;
    CHECK(join(start(own, NULL)) == PTHREAD_CANCELED);
    EQUAL(cleaned, 1);
    return 0;
}
