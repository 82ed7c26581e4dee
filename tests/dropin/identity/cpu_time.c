// CPU clocks and getrusage of thread and process never go back, also over suspensions, and the
// process has used CPU time once its threads have computed.
#include "../check.h"
#include <sched.h>
#include <sys/resource.h>

enum { THREADS = 8, ROUNDS = 50 };

static long long nanoseconds(struct timespec time) {
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static long long by_clock(clockid_t clock) {
    struct timespec time;
    MUST(clock_gettime(clock, &time));
    return nanoseconds(time);
}

static long long by_usage(int who) {
    struct rusage usage;
    MUST(getrusage(who, &usage));
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ll + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

static void *run(UNUSED void *argument) {
    long long last[5] = {0};
    clockid_t own;
    EQUAL(pthread_getcpuclockid(pthread_self(), &own), 0);
    volatile unsigned work = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 10000; i++) work += (unsigned)i;
        if (round % 4 == 0) sched_yield();
        if (round % 16 == 1) pause_ms(1);
        long long now[5] = {by_clock(CLOCK_THREAD_CPUTIME_ID), by_clock(own),
                            by_clock(CLOCK_PROCESS_CPUTIME_ID), by_usage(RUSAGE_THREAD),
                            by_usage(RUSAGE_SELF)};
        for (int i = 0; i < 5; i++) {
            if (now[i] < last[i]) FAIL("clock %d went from %lld to %lld", i, last[i], now[i]);
            last[i] = now[i];
        }
    }
    CHECK(last[2] > 0);
    return NULL;
}

int main(void) {
    long long before = by_clock(CLOCK_PROCESS_CPUTIME_ID);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
    run(NULL);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    CHECK(by_clock(CLOCK_PROCESS_CPUTIME_ID) > before);
    return 0;
}
