// pthread_cond_broadcast wakes all waiters, with and without the mutex held, round after round.
#include "../check.h"

enum { THREADS = 30, ROUNDS = 50 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go = PTHREAD_COND_INITIALIZER, all_here = PTHREAD_COND_INITIALIZER;
static int here, generation;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        EQUAL(generation, round);
        if (++here == THREADS) EQUAL(pthread_cond_signal(&all_here), 0);
        while (generation == round) EQUAL(pthread_cond_wait(&go, &mutex), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        while (here < THREADS) EQUAL(pthread_cond_wait(&all_here, &mutex), 0);
        here = 0;
        generation++;
        if (round % 2) EQUAL(pthread_cond_broadcast(&go), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
        if (round % 2 == 0) EQUAL(pthread_cond_broadcast(&go), 0);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
