// FUTEX_WAKE_BITSET wakes only waiters with a bit in common; FUTEX_WAKE wakes any of them.
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

enum { THREADS = 8 };
static int word;
static int awake[THREADS];

static long futex(int operation, int value, unsigned bits) {
    return syscall(SYS_futex, &word, operation, value, NULL, NULL, bits);
}

static void *waits(void *argument) {
    long self = (long)argument;
    while (futex(FUTEX_WAIT_BITSET_PRIVATE, 0, 1u << self) == -1) EQUAL(errno, EINTR);
    __atomic_store_n(&awake[self], 1, __ATOMIC_RELEASE);
    return NULL;
}

static void wake(unsigned bits, int wanted) {
    while (wanted > 0) {
        long now = futex(FUTEX_WAKE_BITSET_PRIVATE, 100, bits);
        CHECK(now >= 0 && now <= wanted);
        wanted -= (int)now;
        if (now == 0) pause_ms(1);
    }
    EQUAL(futex(FUTEX_WAKE_BITSET_PRIVATE, 100, bits), 0);
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(waits, (void *)i);
    EQUAL(futex(FUTEX_WAKE_BITSET_PRIVATE, 100, 1u << 20), 0);
    // One after another from the last, then two by their bits, and the rest by a plain wake.
    for (int i = THREADS - 1; i >= 4; i--) {
        wake(1u << i, 1);
        join(threads[i]);
        for (int j = 0; j < i; j++) EQUAL(__atomic_load_n(&awake[j], __ATOMIC_ACQUIRE), 0);
    }
    wake(1u << 1 | 1u << 3, 2);
    join(threads[1]);
    join(threads[3]);
    EQUAL(awake[0] + awake[2], 0);
    for (int left = 2; left > 0;) {
        long now = syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        CHECK(now == 0 || now == 1);
        left -= (int)now;
        if (now == 0) pause_ms(1);
    }
    join(threads[0]);
    join(threads[2]);
    EQUAL(futex(FUTEX_WAKE_BITSET_PRIVATE, 1, 0), -1);
    EQUAL(errno, EINVAL);
    EQUAL(futex(FUTEX_WAIT_BITSET_PRIVATE, 0, 0), -1);
    EQUAL(errno, EINVAL);
    return 0;
}
