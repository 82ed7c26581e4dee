// The part that all programs share: checks, skips, threads, children, deadlines and the count
// argument.
#ifndef DAIKO_DROPIN_CHECK_H
#define DAIKO_DROPIN_CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

// Prints one line and ends the process with exit code 1, from any thread.
#define FAIL(format, ...) \
    (dprintf(2, "%s:%d: " format "\n", __FILE__, __LINE__, ##__VA_ARGS__), _exit(1))

// Prints why this machine cannot run the program, and ends the process with exit code 77.
#define SKIP(format, ...) (dprintf(2, format "\n", ##__VA_ARGS__), _exit(77))

// Fails unless the condition holds.
#define CHECK(condition) \
    do { \
        if (!(condition)) FAIL("not true: %s", #condition); \
    } while (0)

// Fails unless both integers are equal.
#define EQUAL(expression, expected) \
    do { \
        long long got_ = (long long)(expression), wanted_ = (long long)(expected); \
        if (got_ != wanted_) FAIL("%s is %lld, not %s (%lld)", #expression, got_, #expected, wanted_); \
    } while (0)

// Fails unless the call, which returns -1 and sets errno on failure, succeeds. Returns its result.
#define MUST(call) must((long)(call), #call, __FILE__, __LINE__)

static inline long must(long result, const char *call, const char *file, int line) {
    if (result == -1) {
        dprintf(2, "%s:%d: %s failed with errno %d\n", file, line, call, errno);
        _exit(1);
    }
    return result;
}

// A process that forgets to count a thread would end early, with exit code 0.
UNUSED static void check_end(void) {
    if (gettid() != getpid()) FAIL("the process ends before main does");
}

// Fails if the process ends otherwise than by a return from main, or an exit of the initial thread.
__attribute__((constructor)) UNUSED static void main_ends(void) {
#ifndef ENDS_ELSEWHERE
    atexit(check_end);
#endif
}

// Starts a thread with default attributes.
static inline pthread_t start(void *(*run)(void *), void *argument) {
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, run, argument), 0);
    return thread;
}

// Joins the thread and returns its result.
static inline void *join(pthread_t thread) {
    void *result;
    EQUAL(pthread_join(thread, &result), 0);
    return result;
}

// Starts so many threads, and waits for their ends.
static inline void run_threads(int many, void *(*run)(void *)) {
    pthread_t threads[many];
    for (int i = 0; i < many; i++) threads[i] = start(run, NULL);
    for (int i = 0; i < many; i++) join(threads[i]);
}

// Runs threads that spoil their state, and after their end threads that inspect theirs, which may
// get the memory of the former.
static inline void spoil_and_inspect(void *(*spoil)(void *), void *(*inspect)(void *)) {
    for (int round = 0; round < 40; round++) {
        int many = round % 5 + 1;
        run_threads(many, spoil);
        run_threads(many, inspect);
    }
}

// Returns a page of zeros that is shared with children.
static inline void *shared_page(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

// Waits for the end of the child and returns its wait status.
static inline int status_of(pid_t child) {
    int status;
    EQUAL(waitpid(child, &status, 0), child);
    return status;
}

// Returns the first argument of the program as a number, or the default for a short run.
static inline long count(int argc, char **argv, long otherwise) {
    return argc > 1 ? atol(argv[1]) : otherwise;
}

// Returns the time on this clock in so many milliseconds.
static inline struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec time;
    MUST(clock_gettime(clock, &time));
    long nanoseconds = time.tv_nsec + ms % 1000 * 1000000;
    time.tv_sec += ms / 1000 + nanoseconds / 1000000000;
    time.tv_nsec = nanoseconds % 1000000000;
    return time;
}

// Returns 1 if this clock has reached the time.
static inline int is_reached(clockid_t clock, struct timespec time) {
    struct timespec now;
    MUST(clock_gettime(clock, &now));
    return now.tv_sec > time.tv_sec || (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec);
}

// Sleeps for a while between two attempts of a loop.
static inline void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

#endif
