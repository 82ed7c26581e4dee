/* Checks that end the program, and times, for the test programs. */
#ifndef CHECK_H
#define CHECK_H
#include <daiko.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(actual, expected) check(__FILE__, __LINE__, #actual, (long)(actual), (long)(expected))
#define OK(actual) CHECK(actual, 0)

static inline void check(const char *file, int line, const char *text, long actual, long expected)
{
    if (actual == expected)
        return;
    fprintf(stderr, "%s:%d: %s is %ld, not %ld\n", file, line, text, actual, expected);
    _Exit(1);
}

static inline struct timespec after(time_t seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    now.tv_sec += seconds;
    return now;
}

/* Runs function in a runtime of its own, of so many workers, which ends well. */
static inline void in_runtime(unsigned workers, daiko_function function)
{
    daiko_runtime_attr attr = DAIKO_RUNTIME_ATTR_INITIALIZER;
    daiko_runtime *runtime;
    size_t left = 1;
    attr.workers = workers;
    OK(daiko_runtime_new(&runtime, &attr));
    OK(daiko_runtime_run(runtime, function, NULL, NULL));
    OK(daiko_runtime_shutdown(runtime, &left));
    CHECK(left, 0);
    OK(daiko_runtime_free(runtime));
}
#endif
