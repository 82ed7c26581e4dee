// A program repeats one step. Usage: PROGRAM small|large [STEPS]
// It prints "ready" when it has prepared, and after STEPS steps the CPU time of each in
// nanoseconds.
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

static inline uint64_t draw(void) {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static uint64_t begin(int argc, char **argv) {
    large = argc > 1 && !strcmp(argv[1], "large");
    return argc > 2 ? strtoull(argv[2], 0, 10) : UINT64_MAX;
}

#define REPEAT(steps, ...)                                                                         \
    do {                                                                                           \
        puts("ready");                                                                             \
        fflush(stdout);                                                                            \
        double start = cpu_ns();                                                                   \
        for (uint64_t done = 0; done < (steps); done++) {                                          \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        printf("%f\n", (cpu_ns() - start) / (double)(steps));                                      \
    } while (0)

#endif
