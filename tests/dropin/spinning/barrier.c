// A barrier of plain atomics, without any call while threads wait in it, gets through with more
// threads than CPUs.
#include "../check.h"
#include <sched.h>

enum { ROUNDS = 5 };
static int threads, arrived;

static void *run(UNUSED void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < round * threads) {}
    }
    return NULL;
}

int main(void) {
    cpu_set_t allowed;
    MUST(sched_getaffinity(0, sizeof allowed, &allowed));
    threads = CPU_COUNT(&allowed) + 1;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    CHECK(ids);
    for (int i = 0; i < threads; i++) ids[i] = start(run, NULL);
    for (int i = 0; i < threads; i++) join(ids[i]);
    EQUAL(arrived, ROUNDS * threads);
    return 0;
}
