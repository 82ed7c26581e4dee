// A lock that makes futex calls by its own instructions, as some libraries do, excludes and wakes,
// with more threads than CPUs.
#include "../check.h"
#include "../instruction.h"
#include <sched.h>

enum { THREADS = 8, ROUNDS = 500 };
static int word;
static long total;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        while (__atomic_exchange_n(&word, 1, __ATOMIC_ACQUIRE) != 0) {
            futex(&word, FUTEX_WAIT_PRIVATE, 1);
        }
        long seen = total;
        if (round % 50 == 0) sched_yield();
        if (round % 250 == 0) pause_ms(1);
        total = seen + 1;
        __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
        futex(&word, FUTEX_WAKE_PRIVATE, THREADS);
    }
    return NULL;
}

int main(void) {
    run_threads(THREADS, run);
    EQUAL(total, THREADS * ROUNDS);
    return 0;
}
