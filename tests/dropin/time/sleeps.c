// No sleep ends early, whichever function and clock; remaining times are told after EINTR.
#include "../check.h"
#include <sched.h>
#include <signal.h>

static volatile int ended;

static void handle(UNUSED int signal) {}

static void *run(UNUSED void *argument) {
    struct timespec ms20 = {0, 20000000}, end = in_ms(CLOCK_MONOTONIC, 20), bad = {0, 1000000000};
    MUST(nanosleep(&ms20, NULL));
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    end = in_ms(CLOCK_MONOTONIC, 20);
    MUST(usleep(20000));
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    end = in_ms(CLOCK_MONOTONIC, 20);
    EQUAL(clock_nanosleep(CLOCK_REALTIME, 0, &ms20, NULL), 0);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
    for (int i = 0; i < 4; i++) {
        end = in_ms(clocks[i], 10);
        EQUAL(clock_nanosleep(clocks[i], TIMER_ABSTIME, &end, NULL), 0);
        CHECK(is_reached(clocks[i], end));
    }
    end = in_ms(CLOCK_MONOTONIC, -1000);
    EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL), 0);
    EQUAL(nanosleep(&bad, NULL), -1);
    EQUAL(errno, EINVAL);
    EQUAL(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL), EINVAL);
    EQUAL(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &ms20, NULL), EINVAL);
    EQUAL(sleep(0), 0);
    EQUAL(sched_yield(), 0);
    return NULL;
}

static void *interrupted(UNUSED void *argument) {
    struct timespec hour = {3600, 0}, left = {0, 0};
    EQUAL(nanosleep(&hour, &left), -1);
    EQUAL(errno, EINTR);
    CHECK(left.tv_sec > 0 && left.tv_sec <= 3600);
    EQUAL(clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, &left), EINTR);
    CHECK(left.tv_sec > 0 && left.tv_sec <= 3600);
    unsigned seconds = sleep(3600);
    CHECK(seconds > 0 && seconds <= 3600);
    ended = 1;
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_t threads[10];
    for (int i = 0; i < 10; i++) threads[i] = start(run, NULL);
    run(NULL);
    for (int i = 0; i < 10; i++) join(threads[i]);
    pthread_t sleeper = start(interrupted, NULL);
    while (!ended) {
        EQUAL(pthread_kill(sleeper, SIGUSR1), 0);
        pause_ms(1);
    }
    join(sleeper);
    return 0;
}
