// Futexes without the private flag: threads of the program meet on them, a wake with the flag does
// not, and processes meet on them in memory that they share.
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

enum { THREADS = 4, ROUNDS = 500 };
static int word;

static long futex(int *address, int operation, int value) {
    return syscall(SYS_futex, address, operation, value, NULL, NULL, 0);
}

static void *waits(void *address) {
    while (futex(address, FUTEX_WAIT, 0) == -1) EQUAL(errno, EINTR);
    return NULL;
}

static void wake(int *address, int wanted) {
    while (wanted > 0) {
        long now = futex(address, FUTEX_WAKE, 1);
        CHECK(now == 0 || now == 1);
        wanted -= (int)now;
        if (now == 0) pause_ms(1);
    }
}

// Waits for the value, and sets the next one.
static void pass(int *turn, int own) {
    for (int now; (now = __atomic_load_n(turn, __ATOMIC_ACQUIRE)) % 2 != own;) {
        if (futex(turn, FUTEX_WAIT, now) == -1) CHECK(errno == EAGAIN || errno == EINTR);
    }
    __atomic_add_fetch(turn, 1, __ATOMIC_RELEASE);
    CHECK(futex(turn, FUTEX_WAKE, 1) >= 0);
}

static void *passes(void *turn) {
    for (int round = 0; round < ROUNDS; round++) pass(turn, 0);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(waits, &word);
    wake(&word, 1);
    EQUAL(futex(&word, FUTEX_WAKE_PRIVATE, THREADS), 0);

    int *shared = shared_page();
    // Those that sleep since before are found.
    wake(&word, THREADS - 1);
    for (int i = 0; i < THREADS; i++) join(threads[i]);

    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        for (int round = 0; round < ROUNDS; round++) pass(shared, 1);
        _exit(0);
    }
    join(start(passes, shared));
    EQUAL(status_of(child), 0);
    EQUAL(*shared, 2 * ROUNDS);
    return 0;
}
