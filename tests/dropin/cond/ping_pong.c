// pthread_cond_signal wakes a waiter: two threads, and then a ring of 50, hand a token around.
#include "../check.h"

enum { MOST = 50 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t conds[MOST];
static int turn, members, rounds;

static void *run(void *argument) {
    int self = (int)(long)argument;
    for (int round = 0; round < rounds; round++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        while (turn != self) EQUAL(pthread_cond_wait(&conds[self], &mutex), 0);
        turn = (self + 1) % members;
        EQUAL(pthread_cond_signal(&conds[turn]), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static void ring(int size, int times) {
    pthread_t threads[MOST];
    members = size, rounds = times, turn = 0;
    for (int i = 0; i < size; i++) EQUAL(pthread_cond_init(&conds[i], NULL), 0);
    for (long i = 0; i < size; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < size; i++) join(threads[i]);
    for (int i = 0; i < size; i++) EQUAL(pthread_cond_destroy(&conds[i]), 0);
    EQUAL(turn, 0);
}

int main(void) {
    ring(2, 5000);
    ring(MOST, 200);
    return 0;
}
