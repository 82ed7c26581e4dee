// FUTEX_WAIT and FUTEX_WAKE by syscall(): a wake counts those that it woke, a changed word is not
// waited for, and a lock of three states built from them excludes.
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

enum { THREADS = 8, ROUNDS = 1000 };
static int word, lock_word;
static long total;

static long futex(int *address, int operation, int value) {
    return syscall(SYS_futex, address, operation, value, NULL, NULL, 0);
}

static void lock(void) {
    int seen = 0;
    if (__atomic_compare_exchange_n(&lock_word, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return;
    }
    while (__atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE) != 0) {
        if (futex(&lock_word, FUTEX_WAIT_PRIVATE, 2) == -1) CHECK(errno == EAGAIN || errno == EINTR);
    }
}

static void unlock(void) {
    if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) == 2) {
        CHECK(futex(&lock_word, FUTEX_WAKE_PRIVATE, 1) <= 1);
    }
}

static void *excludes(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        lock();
        long seen = total;
        if (round % 100 == 0) pause_ms(0);
        total = seen + 1;
        unlock();
    }
    return NULL;
}

static void *waits(void *argument) {
    int operation = argument ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
    while (futex(&word, operation, 0) == -1) EQUAL(errno, EINTR);
    return NULL;
}

static void wake_all(int shared) {
    pthread_t threads[THREADS];
    int woken = 0;
    for (int i = 0; i < THREADS; i++) threads[i] = start(waits, shared ? &word : NULL);
    while (woken < THREADS) {
        // At most as many as asked for, however many wait.
        long now = futex(&word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, 3);
        CHECK(now >= 0 && now <= 3);
        woken += (int)now;
        if (now == 0) pause_ms(1);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    EQUAL(woken, THREADS);
}

int main(void) {
    wake_all(0);
    wake_all(1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(excludes, NULL);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    EQUAL(total, THREADS * ROUNDS);
    EQUAL(futex(&word, FUTEX_WAIT_PRIVATE, 1), -1);
    EQUAL(errno, EAGAIN);
    EQUAL(futex(&word, FUTEX_WAKE_PRIVATE, 1), 0);
    EQUAL(futex((int *)((char *)&word + 1), FUTEX_WAIT_PRIVATE, 0), -1);
    EQUAL(errno, EINVAL);
    EQUAL(futex(NULL, FUTEX_WAIT_PRIVATE, 0), -1);
    EQUAL(errno, EFAULT);
    EQUAL(futex(&word, 77, 0), -1);
    EQUAL(errno, ENOSYS);
    return 0;
}
