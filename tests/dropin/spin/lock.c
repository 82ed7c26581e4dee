// A spin lock excludes; a holder that yields or sleeps is not spun against for ever.
#include "../check.h"
#include <sched.h>

enum { THREADS = 8, ROUNDS = 1000 };
static pthread_spinlock_t spin;
static long total;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_spin_lock(&spin), 0);
        long seen = total;
        if (round % 100 == 0) sched_yield();
        if (round == 500) pause_ms(1);
        total = seen + 1;
        EQUAL(pthread_spin_unlock(&spin), 0);
    }
    return NULL;
}

int main(void) {
    int kinds[] = {PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED};
    for (int i = 0; i < 2; i++) {
        pthread_t threads[THREADS];
        total = 0;
        EQUAL(pthread_spin_init(&spin, kinds[i]), 0);
        EQUAL(pthread_spin_trylock(&spin), 0);
        EQUAL(pthread_spin_trylock(&spin), EBUSY);
        EQUAL(pthread_spin_unlock(&spin), 0);
        for (int j = 0; j < THREADS; j++) threads[j] = start(run, NULL);
        for (int j = 0; j < THREADS; j++) join(threads[j]);
        EQUAL(total, THREADS * ROUNDS);
        EQUAL(pthread_spin_destroy(&spin), 0);
    }
    return 0;
}
