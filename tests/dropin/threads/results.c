// Threads return values by return and pthread_exit, to every kind of join; a thread cannot join
// itself, and timed joins do not return early.
#include "../check.h"

enum { THREADS = 100 };
static int finished;

static void *returns(void *argument) { return (char *)argument + 1; }
static void *exits(void *argument) { pthread_exit((char *)argument + 2); }

static void *joins_itself(UNUSED void *argument) {
    EQUAL(pthread_join(pthread_self(), NULL), EDEADLK);
    return NULL;
}

static void *waits(UNUSED void *argument) {
    while (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE)) pause_ms(1);
    return &finished;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(i % 2 ? returns : exits, (void *)i);
    for (long i = THREADS; i-- > 0;) EQUAL(join(threads[i]), i + (i % 2 ? 1 : 2));
    join(start(joins_itself, NULL));

    pthread_t thread = start(waits, NULL);
    void *result;
    EQUAL(pthread_tryjoin_np(thread, &result), EBUSY);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    EQUAL(pthread_timedjoin_np(thread, &result, &soon), ETIMEDOUT);
    CHECK(is_reached(CLOCK_REALTIME, soon));
    soon = in_ms(CLOCK_MONOTONIC, 20);
    EQUAL(pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
    CHECK(is_reached(CLOCK_MONOTONIC, soon));
    __atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
    struct timespec far = in_ms(CLOCK_REALTIME, 3600000);
    EQUAL(pthread_timedjoin_np(thread, &result, &far), 0);
    CHECK(result == &finished);

    thread = start(returns, NULL);
    int tried;
    while ((tried = pthread_tryjoin_np(thread, &result)) == EBUSY) pause_ms(1);
    EQUAL(tried, 0);
    EQUAL(result, 1);
    CHECK(pthread_equal(pthread_self(), pthread_self()));
    return 0;
}
