// Threads that spin on a plain flag, more than there are CPUs, do not keep the one that sets it
// from running, although it starts last.
#include "../check.h"
#include <sched.h>

static volatile int flag;
static int spinning;

static void *spins(UNUSED void *argument) {
    __atomic_add_fetch(&spinning, 1, __ATOMIC_RELEASE);
    while (!flag) {}
    return NULL;
}

static void *sets(UNUSED void *argument) {
    flag = 1;
    return NULL;
}

int main(void) {
    cpu_set_t allowed;
    MUST(sched_getaffinity(0, sizeof allowed, &allowed));
    int threads = CPU_COUNT(&allowed) + 2;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    CHECK(ids);
    for (int i = 0; i < threads; i++) ids[i] = start(spins, NULL);
    while (__atomic_load_n(&spinning, __ATOMIC_ACQUIRE) < threads) pause_ms(1);
    join(start(sets, NULL));
    for (int i = 0; i < threads; i++) join(ids[i]);
    return 0;
}
