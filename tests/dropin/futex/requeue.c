// FUTEX_REQUEUE and FUTEX_CMP_REQUEUE wake some waiters and move more to a second word, where a
// wake finds them; FUTEX_CMP_REQUEUE does nothing if the word has changed.
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

enum { THREADS = 6 };
static int first, second, asleep, awake;

static long futex(int *address, int operation, int value, long more, int *other, int compared) {
    return syscall(SYS_futex, address, operation, value, more, other, compared);
}

static void *waits(UNUSED void *argument) {
    __atomic_add_fetch(&asleep, 1, __ATOMIC_RELEASE);
    while (futex(&first, FUTEX_WAIT_PRIVATE, 0, 0, NULL, 0) == -1) EQUAL(errno, EINTR);
    __atomic_add_fetch(&awake, 1, __ATOMIC_RELEASE);
    return NULL;
}

// Moves all waiters to the second word; they may still be on their way into the call.
static void move_all(int compare) {
    int operation = compare ? FUTEX_CMP_REQUEUE_PRIVATE : FUTEX_REQUEUE_PRIVATE;
    int moved = 0;
    while (moved < THREADS) {
        long now = futex(&first, operation, 0, THREADS, &second, 0);
        CHECK(now >= 0 && now <= THREADS - moved);
        moved += (int)now;
        if (now == 0) pause_ms(1);
    }
    EQUAL(__atomic_load_n(&awake, __ATOMIC_ACQUIRE), 0);
    EQUAL(futex(&first, FUTEX_WAKE_PRIVATE, THREADS, 0, NULL, 0), 0);
}

static void run(int compare) {
    pthread_t threads[THREADS];
    asleep = awake = 0;
    for (int i = 0; i < THREADS; i++) threads[i] = start(waits, NULL);
    if (compare) {
        EQUAL(futex(&first, FUTEX_CMP_REQUEUE_PRIVATE, 1, THREADS, &second, 1), -1);
        EQUAL(errno, EAGAIN);
    }
    move_all(compare);
    // Back: one is woken, two are moved, and three stay.
    EQUAL(futex(&second, FUTEX_REQUEUE_PRIVATE, 1, 2, &first, 0), 3);
    EQUAL(futex(&first, FUTEX_WAKE_PRIVATE, THREADS, 0, NULL, 0), 2);
    EQUAL(futex(&second, FUTEX_WAKE_PRIVATE, THREADS, 0, NULL, 0), 3);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    EQUAL(awake, THREADS);
}

int main(void) {
    run(0);
    run(1);
    return 0;
}
