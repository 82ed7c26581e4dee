// sem_timedwait and sem_clockwait end with ETIMEDOUT, not before the deadline on their clock; with
// a value they return at once with any deadline.
#include "../check.h"
#include <semaphore.h>

static sem_t semaphore;

static void *run(UNUSED void *argument) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 30);
    EQUAL(sem_timedwait(&semaphore, &soon), -1);
    EQUAL(errno, ETIMEDOUT);
    CHECK(is_reached(CLOCK_REALTIME, soon));
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int i = 0; i < 2; i++) {
        soon = in_ms(clocks[i], 20);
        EQUAL(sem_clockwait(&semaphore, clocks[i], &soon), -1);
        EQUAL(errno, ETIMEDOUT);
        CHECK(is_reached(clocks[i], soon));
    }
    struct timespec bad = {1, 1000000000}, past = {1, 0};
    EQUAL(sem_timedwait(&semaphore, &bad), -1);
    EQUAL(errno, EINVAL);
    EQUAL(sem_timedwait(&semaphore, &past), -1);
    EQUAL(errno, ETIMEDOUT);
    EQUAL(sem_clockwait(&semaphore, CLOCK_PROCESS_CPUTIME_ID, &past), -1);
    EQUAL(errno, EINVAL);
    MUST(sem_post(&semaphore));
    MUST(sem_timedwait(&semaphore, &past));
    return NULL;
}

static void *post(UNUSED void *argument) {
    MUST(sem_post(&semaphore));
    return NULL;
}

int main(void) {
    MUST(sem_init(&semaphore, 0, 0));
    join(start(run, NULL));
    run(NULL);
    for (int i = 0; i < 200; i++) {
        struct timespec far = in_ms(CLOCK_REALTIME, 3600000);
        pthread_t thread = start(post, NULL);
        MUST(sem_timedwait(&semaphore, &far));
        join(thread);
    }
    return 0;
}
