// An adaptive mutex excludes, also while its owner sleeps and waiters spin.
#include "../check.h"

enum { THREADS = 6, ROUNDS = 500 };
static pthread_mutex_t mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static long total;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        long seen = total;
        if (round % 100 == 0) pause_ms(1);
        total = seen + 1;
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

int main(void) {
    run_threads(THREADS, run);
    EQUAL(total, THREADS * ROUNDS);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
