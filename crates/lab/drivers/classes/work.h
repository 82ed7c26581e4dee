// A program repeats one step until it is killed. Usage: PROGRAM small|large
// It prints "ready" when it has prepared, followed by the id of the process that works if that is
// not itself. Then it prints the CPU time of a step in nanoseconds, again and again.
#ifndef WORK_H
#define WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool large;
static volatile uint64_t sink;
// The process that works, if it is another one, and its clock.
static int worker;
static clockid_t worker_clock = CLOCK_THREAD_CPUTIME_ID;

static inline uint64_t draw(void) {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(worker_clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void begin(int argc, char **argv) {
    large = argc > 1 && !strcmp(argv[1], "large");
}

static void ready(void) {
    if (worker)
        printf("ready %d\n", worker);
    else
        puts("ready");
    fflush(stdout);
}

// Prints the time of a step if the batch was long enough. Returns the length of the next batch.
static uint64_t told(double took, uint64_t batch) {
    if (took < 2e7)
        return batch * 2;
    printf("%f\n", took / (double)batch);
    fflush(stdout);
    return batch;
}

#define REPEAT(...)                                                                                \
    do {                                                                                           \
        ready();                                                                                   \
        for (uint64_t batch = 1;;) {                                                               \
            double start = cpu_ns();                                                               \
            for (uint64_t done = 0; done < batch; done++) {                                        \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
            batch = told(cpu_ns() - start, batch);                                                 \
        }                                                                                          \
    } while (0)

#endif
