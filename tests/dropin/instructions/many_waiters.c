// Hundreds of threads wait at once, each by an instruction of the program, and all go on.
#include "../check.h"
#include "../instruction.h"

enum { THREADS = 200 };
static int word, waiting;

static void *run(UNUSED void *argument) {
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) futex(&word, FUTEX_WAIT_PRIVATE, 0);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < THREADS) pause_ms(1);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    futex(&word, FUTEX_WAKE_PRIVATE, THREADS);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
