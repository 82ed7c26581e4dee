// mtx_* and cnd_*: plain, recursive and timed mutexes, and condition variables of C11.
#include "../check.h"
#include <threads.h>

enum { THREADS = 8, ROUNDS = 500 };
static mtx_t mutex;
static cnd_t cond;
static int total, go;

static int run(UNUSED void *argument) {
    EQUAL(mtx_lock(&mutex), thrd_success);
    while (!go) EQUAL(cnd_wait(&cond, &mutex), thrd_success);
    EQUAL(mtx_unlock(&mutex), thrd_success);
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(mtx_lock(&mutex), thrd_success);
        int seen = total;
        if (round % 50 == 0) thrd_yield();
        total = seen + 1;
        EQUAL(mtx_unlock(&mutex), thrd_success);
    }
    return 0;
}

static int late(UNUSED void *argument) {
    EQUAL(mtx_trylock(&mutex), thrd_busy);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    EQUAL(mtx_timedlock(&mutex, &soon), thrd_timedout);
    CHECK(is_reached(CLOCK_REALTIME, soon));
    return 0;
}

static int in_thread(thrd_start_t run) {
    thrd_t thread;
    int result;
    EQUAL(thrd_create(&thread, run, NULL), thrd_success);
    EQUAL(thrd_join(thread, &result), thrd_success);
    return result;
}

int main(void) {
    EQUAL(mtx_init(&mutex, mtx_plain), thrd_success);
    EQUAL(cnd_init(&cond), thrd_success);
    thrd_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) EQUAL(thrd_create(&threads[i], run, NULL), thrd_success);
    EQUAL(mtx_lock(&mutex), thrd_success);
    go = 1;
    EQUAL(cnd_signal(&cond), thrd_success);
    EQUAL(cnd_broadcast(&cond), thrd_success);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    while (!is_reached(CLOCK_REALTIME, soon)) {
        int result = cnd_timedwait(&cond, &mutex, &soon);
        CHECK(result == thrd_success || result == thrd_timedout);
        if (result == thrd_timedout) CHECK(is_reached(CLOCK_REALTIME, soon));
    }
    EQUAL(mtx_unlock(&mutex), thrd_success);
    for (int i = 0; i < THREADS; i++) EQUAL(thrd_join(threads[i], NULL), thrd_success);
    EQUAL(total, THREADS * ROUNDS);
    mtx_destroy(&mutex);
    cnd_destroy(&cond);

    EQUAL(mtx_init(&mutex, mtx_timed | mtx_recursive), thrd_success);
    for (int i = 0; i < 3; i++) EQUAL(mtx_lock(&mutex), thrd_success);
    for (int i = 0; i < 3; i++) {
        EQUAL(in_thread(late), 0);
        EQUAL(mtx_unlock(&mutex), thrd_success);
    }
    mtx_destroy(&mutex);
    return 0;
}
