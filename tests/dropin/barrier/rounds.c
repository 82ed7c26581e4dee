// A barrier lets no thread through before all have arrived, and names one serial thread a round.
#include "../check.h"

enum { THREADS = 20, ROUNDS = 200 };
static pthread_barrier_t barrier;
static int arrived, serial;

static void *run(UNUSED void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
        int result = pthread_barrier_wait(&barrier);
        CHECK(__atomic_load_n(&arrived, __ATOMIC_RELAXED) >= round * THREADS);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD) {
            __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED);
        } else {
            EQUAL(result, 0);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    EQUAL(pthread_barrier_init(&barrier, NULL, 0), EINVAL);
    EQUAL(pthread_barrier_init(&barrier, NULL, 1), 0);
    EQUAL(pthread_barrier_wait(&barrier), PTHREAD_BARRIER_SERIAL_THREAD);
    EQUAL(pthread_barrier_destroy(&barrier), 0);
    EQUAL(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    EQUAL(serial, ROUNDS);
    EQUAL(pthread_barrier_destroy(&barrier), 0);
    return 0;
}
