// A thread that is cancelled in pthread_cond_wait does not swallow a signal that another waiter
// needs, though the signal came first.
#include "../check.h"

enum { ROUNDS = 50 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting;

static void unlock(UNUSED void *argument) {
    waiting--;
    EQUAL(pthread_mutex_unlock(&mutex), 0);
}

static void *run(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    waiting++;
    pthread_cleanup_push(unlock, NULL);
    EQUAL(pthread_cond_wait(&cond, &mutex), 0);
    pthread_cleanup_pop(1);
    return &mutex;
}

static pthread_t start_waiter(int before) {
    pthread_t waiter = start(run, NULL);
    for (int waits = 0; !waits; pause_ms(0)) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        waits = waiting > before;
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return waiter;
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t one = start_waiter(0), two = start_waiter(1);
        EQUAL(pthread_mutex_lock(&mutex), 0);
        EQUAL(pthread_cond_signal(&cond), 0);
        EQUAL(pthread_cancel(one), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
        if (join(one) == PTHREAD_CANCELED) {
            CHECK(join(two) == &mutex);
        } else {
            EQUAL(pthread_cancel(two), 0);
            join(two);
        }
        EQUAL(waiting, 0);
    }
    return 0;
}
