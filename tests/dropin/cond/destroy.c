// A condition variable may be destroyed once its waiters were woken, and its memory reused.
#include "../check.h"

enum { THREADS = 4, ROUNDS = 100 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t *cond;
static int waiting, woken;

static void *run(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    waiting++;
    while (!woken) EQUAL(pthread_cond_wait(cond, &mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

int main(void) {
    cond = malloc(sizeof *cond);
    CHECK(cond);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        EQUAL(pthread_cond_init(cond, NULL), 0);
        waiting = woken = 0;
        for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
        for (int seen = 0; seen < THREADS; pause_ms(0)) {
            EQUAL(pthread_mutex_lock(&mutex), 0);
            seen = waiting;
            EQUAL(pthread_mutex_unlock(&mutex), 0);
        }
        EQUAL(pthread_mutex_lock(&mutex), 0);
        woken = 1;
        EQUAL(pthread_cond_broadcast(cond), 0);
        EQUAL(pthread_cond_destroy(cond), 0);
        memset(cond, 0x55, sizeof *cond);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
        for (int i = 0; i < THREADS; i++) join(threads[i]);
    }
    return 0;
}
