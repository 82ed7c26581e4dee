// A thread that is cancelled in pthread_cond_wait holds the mutex in its cleanup handlers, and
// does not swallow a signal that another waiter needs.
#include "../check.h"

enum { ROUNDS = 100 };
static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, tokens;

static void unlock(void *token) {
    // Woken and cancelled at once: the token is still there for the other waiter.
    EQUAL(pthread_mutex_lock(&mutex), EDEADLK);
    if (*(int *)token == 0 && tokens > 0) EQUAL(pthread_cond_signal(&cond), 0);
    waiting--;
    EQUAL(pthread_mutex_unlock(&mutex), 0);
}

static void *run(UNUSED void *argument) {
    int token = 0;
    EQUAL(pthread_mutex_lock(&mutex), 0);
    waiting++;
    pthread_cleanup_push(unlock, &token);
    while (tokens == 0) EQUAL(pthread_cond_wait(&cond, &mutex), 0);
    tokens--;
    token = 1;
    pthread_cleanup_pop(1);
    return &mutex;
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t one = start(run, NULL), two = start(run, NULL);
        for (int both = 0; !both; pause_ms(0)) {
            EQUAL(pthread_mutex_lock(&mutex), 0);
            both = waiting == 2;
            if (both) {
                tokens = 1;
                EQUAL(pthread_cond_signal(&cond), 0);
            }
            EQUAL(pthread_mutex_unlock(&mutex), 0);
        }
        EQUAL(pthread_cancel(one), 0);
        if (join(one) == PTHREAD_CANCELED) {
            CHECK(join(two) == &mutex);
        } else {
            EQUAL(pthread_cancel(two), 0);
            join(two);
        }
        EQUAL(waiting, 0);
        EQUAL(tokens, 0);
    }
    return 0;
}
