// A process-shared barrier keeps the threads of two processes in step.
#include "../check.h"

enum { THREADS = 3, ROUNDS = 100 };
struct shared {
    pthread_barrier_t barrier;
    int arrived;
};
static struct shared *shared;

static void *run(UNUSED void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        __atomic_fetch_add(&shared->arrived, 1, __ATOMIC_RELAXED);
        int result = pthread_barrier_wait(&shared->barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK(__atomic_load_n(&shared->arrived, __ATOMIC_RELAXED) >= round * 2 * THREADS);
    }
    return NULL;
}

int main(void) {
    shared = shared_page();
    pthread_barrierattr_t attributes;
    EQUAL(pthread_barrierattr_init(&attributes), 0);
    EQUAL(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EQUAL(pthread_barrier_init(&shared->barrier, &attributes, 2 * THREADS), 0);
    pid_t child = MUST(fork());
    run_threads(THREADS, run);
    if (child == 0) return 0;
    EQUAL(status_of(child), 0);
    EQUAL(shared->arrived, 2 * THREADS * ROUNDS);
    return 0;
}
