// futex_waitv waits for several words: it returns the index of one that was woken, EAGAIN if one
// has changed, and ETIMEDOUT not before its deadline.
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum { WORDS = 4 };
struct wait_word {
    unsigned long long value, address;
    unsigned flags, reserved;
};
static int words[WORDS];

static long wait_for_words(int last_value, const struct timespec *end) {
    struct wait_word waits[WORDS];
    for (int i = 0; i < WORDS; i++) {
        waits[i] = (struct wait_word){i == WORDS - 1 ? (unsigned)last_value : 0,
                                      (unsigned long)&words[i], 2 | FUTEX_PRIVATE_FLAG, 0};
    }
    return syscall(SYS_futex_waitv, waits, WORDS, 0, end, CLOCK_MONOTONIC);
}

static void *run(UNUSED void *argument) {
    long result;
    while ((result = wait_for_words(0, NULL)) == -1) EQUAL(errno, EINTR);
    return (void *)result;
}

int main(void) {
    struct timespec end = in_ms(CLOCK_MONOTONIC, 20);
    if (wait_for_words(0, &end) == -1 && (errno == ENOSYS || errno == EPERM)) {
        SKIP("this kernel has no futex_waitv: it needs 5.16");
    }
    EQUAL(errno, ETIMEDOUT);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    EQUAL(wait_for_words(1, NULL), -1);
    EQUAL(errno, EAGAIN);
    for (int i = 0; i < 20; i++) {
        pthread_t thread = start(run, NULL);
        int index = i % WORDS;
        while (syscall(SYS_futex, &words[index], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0) {
            pause_ms(1);
        }
        EQUAL(join(thread), index);
    }
    return 0;
}
