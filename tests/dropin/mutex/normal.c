// A normal mutex excludes: the increments of 8 threads, with yields inside, are all counted.
#include "../check.h"
#include <sched.h>

enum { THREADS = 8, ROUNDS = 2000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long total;
static int inside;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        EQUAL(inside++, 0);
        long seen = total;
        if (round % 16 == 0) sched_yield();
        total = seen + 1;
        inside--;
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static void *try(UNUSED void *argument) {
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
    return NULL;
}

int main(void) {
    run_threads(THREADS, run);
    EQUAL(total, THREADS * ROUNDS);
    EQUAL(pthread_mutex_trylock(&mutex), 0);
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
    join(start(try, NULL));
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
