// Sleeps with deadlines apart by 5 ms each end by themselves, while other threads keep yielding.
#include "../check.h"
#include <sched.h>

enum { SLEEPERS = 20 };
static int awake;

static void *yields(UNUSED void *argument) {
    while (__atomic_load_n(&awake, __ATOMIC_ACQUIRE) < SLEEPERS) EQUAL(sched_yield(), 0);
    return NULL;
}

static void *sleeps(void *argument) {
    struct timespec end = in_ms(CLOCK_MONOTONIC, 5 * (long)argument);
    EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL), 0);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    __atomic_add_fetch(&awake, 1, __ATOMIC_RELEASE);
    return NULL;
}

int main(void) {
    pthread_t threads[SLEEPERS], yielding[4];
    for (int i = 0; i < 4; i++) yielding[i] = start(yields, NULL);
    for (long i = 0; i < SLEEPERS; i++) threads[i] = start(sleeps, (void *)i);
    for (int i = 0; i < SLEEPERS; i++) join(threads[i]);
    for (int i = 0; i < 4; i++) join(yielding[i]);
    return 0;
}
