/* Cancels a fiber in each wait of CASES; afterwards the same wait, at the same object, ends by a
 * wake: so the cancelled fiber has left nothing there. The program defines CASES, a list of
 *   X(name, before, wait, wake)
 * in which the wait leaves its code in `code`, and then calls run_cases in main. */
#ifndef CANCEL_H
#define CANCEL_H
#include "check.h"

struct wait_case {
    const char *name;
    void (*before)(void);
    daiko_function wait;
    void (*wake)(void);
};

static daiko_fiber *waiter;
static struct timespec far;

/* Takes a lock, and frees it. */
#define HOLDS(lock, unlock) if ((code = lock) == 0) OK(unlock)

#define X(name, before, wait, wake) \
    static void *wait_##name(void *end) { int code = -1; wait; *(int *)end = code; return end; } \
    static void before_##name(void) { before; } \
    static void wake_##name(void) { wake; }
#define CASE(name) { "daiko_" #name, before_##name, wait_##name, wake_##name },

static inline int end_of_wait(const struct wait_case *item, const daiko_fiber_attr *attr, int cancels)
{
    int code = -2, turns;
    void *end = NULL;
    item->before();
    OK(daiko_spawn(&waiter, attr, item->wait, &code));
    /* There is one worker: by then the fiber has suspended, unless it yields. */
    for (turns = 0; turns < 3; turns++)
        OK(daiko_yield());
    CHECK(code, -2);
    if (cancels)
        OK(daiko_cancel(waiter));
    else
        item->wake();
    OK(daiko_join(waiter, &end));
    CHECK(end == &code, 1);
    return code;
}

static inline void run_cases(const struct wait_case *cases, size_t count)
{
    daiko_fiber_attr attr = DAIKO_FIBER_ATTR_INITIALIZER;
    size_t i;
    far = after(1000);
    for (; attr.flags <= DAIKO_FIBER_MIGRATABLE; attr.flags++) {
        for (i = 0; i < count; i++) {
            printf("cancels %s\n", cases[i].name);
            fflush(stdout);
            CHECK(end_of_wait(&cases[i], &attr, 1), ECANCELED);
            CHECK(end_of_wait(&cases[i], &attr, 0), 0);
        }
    }
}
#endif
