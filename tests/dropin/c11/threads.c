// thrd_*, tss_* and call_once: results, detach, sleep, destructors and one initialisation.
#include "../check.h"
#include <threads.h>

enum { THREADS = 50 };
static once_flag once = ONCE_FLAG_INIT;
static tss_t key;
static thread_local int local = 3;
static int initialised, destroyed;

static void initialise(void) {
    thrd_sleep(&(struct timespec){0, 1000000}, NULL);
    initialised++;
}

static void destroy(void *value) {
    CHECK(value != NULL);
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
}

static int run(void *argument) {
    EQUAL(local, 3);
    local = 4;
    call_once(&once, initialise);
    EQUAL(initialised, 1);
    CHECK(tss_get(key) == NULL);
    EQUAL(tss_set(key, &local), thrd_success);
    thrd_yield();
    struct timespec end = in_ms(CLOCK_MONOTONIC, 2);
    EQUAL(thrd_sleep(&(struct timespec){0, 2000000}, NULL), 0);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    CHECK(tss_get(key) == &local);
    EQUAL(local, 4);
    if ((long)argument % 2) thrd_exit(-(int)(long)argument);
    return (int)(long)argument;
}

static int detached(void *argument) {
    EQUAL(thrd_detach(thrd_current()), thrd_success);
    __atomic_store_n((int *)argument, 1, __ATOMIC_RELEASE);
    return 0;
}

int main(void) {
    thrd_t threads[THREADS];
    static int done;
    EQUAL(tss_create(&key, destroy), thrd_success);
    for (long i = 0; i < THREADS; i++) {
        EQUAL(thrd_create(&threads[i], run, (void *)i), thrd_success);
    }
    for (int i = 0; i < THREADS; i++) {
        int result;
        CHECK(!thrd_equal(threads[i], thrd_current()));
        EQUAL(thrd_join(threads[i], &result), thrd_success);
        EQUAL(result, i % 2 ? -i : i);
    }
    EQUAL(destroyed, THREADS);
    EQUAL(thrd_create(&threads[0], detached, &done), thrd_success);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) thrd_yield();
    return 0;
}
