// The serial thread may destroy the barrier, and reuse its memory, as soon as its wait returns.
#include "../check.h"

enum { THREADS = 4, ROUNDS = 200 };
static pthread_barrier_t *barrier;

static void *run(UNUSED void *argument) {
    int result = pthread_barrier_wait(barrier);
    if (result == PTHREAD_BARRIER_SERIAL_THREAD) {
        EQUAL(pthread_barrier_destroy(barrier), 0);
        memset(barrier, 0x55, sizeof *barrier);
    } else {
        EQUAL(result, 0);
    }
    return NULL;
}

int main(void) {
    barrier = malloc(sizeof *barrier);
    CHECK(barrier);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        EQUAL(pthread_barrier_init(barrier, NULL, THREADS), 0);
        for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
        for (int i = 0; i < THREADS; i++) join(threads[i]);
    }
    free(barrier);
    return 0;
}
