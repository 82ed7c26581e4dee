// pthread_once runs its function once, and returns in all threads after it has ended, even if the
// function suspends.
#include "../check.h"

enum { THREADS = 20, ROUNDS = 50 };
static pthread_once_t once;
static int began, ended;

static void initialise(void) {
    began++;
    pause_ms(1);
    ended++;
}

static void *run(UNUSED void *argument) {
    EQUAL(pthread_once(&once, initialise), 0);
    EQUAL(ended, 1);
    return NULL;
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        once = (pthread_once_t)PTHREAD_ONCE_INIT;
        began = ended = 0;
        for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
        for (int i = 0; i < THREADS; i++) join(threads[i]);
        EQUAL(began, 1);
    }
    return 0;
}
