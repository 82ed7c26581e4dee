// FUTEX_WAKE_OP changes the second word by its operation, wakes waiters of the first word, and
// those of the second if the old value compares.
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static int first, second;

static long futex(int *address, int operation, int value, long more, int *other, int last) {
    return syscall(SYS_futex, address, operation, value, more, other, last);
}

static long wake_op(int operation) {
    return futex(&first, FUTEX_WAKE_OP_PRIVATE, 1, 1, &second, operation);
}

static void *waits(void *word) {
    int seen = *(int *)word;
    while (futex(word, FUTEX_WAIT_PRIVATE, seen, 0, NULL, 0) == -1) {
        if (errno == EAGAIN) return NULL;
        EQUAL(errno, EINTR);
    }
    return word;
}

int main(void) {
    struct {
        int operation, before, after;
    } cases[] = {
        {FUTEX_OP(FUTEX_OP_SET, 7, FUTEX_OP_CMP_EQ, 99), 3, 7},
        {FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 99), 3, 8},
        {FUTEX_OP(FUTEX_OP_OR, 8, FUTEX_OP_CMP_EQ, 99), 3, 11},
        {FUTEX_OP(FUTEX_OP_ANDN, 1, FUTEX_OP_CMP_EQ, 99), 3, 2},
        {FUTEX_OP(FUTEX_OP_XOR, 6, FUTEX_OP_CMP_EQ, 99), 3, 5},
        {(int)((unsigned)FUTEX_OP(FUTEX_OP_OR, 4, FUTEX_OP_CMP_EQ, 99) |
               (unsigned)FUTEX_OP_OPARG_SHIFT << 28), 3, 19},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        second = cases[i].before;
        EQUAL(wake_op(cases[i].operation), 0);
        EQUAL(second, cases[i].after);
    }
    // The first word's waiter is woken; the second's only if its old value is over 5.
    int over_5 = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_GT, 5);
    for (int round = 0; round < 20; round++) {
        second = round % 2 ? 6 : 5;
        pthread_t one = start(waits, &first), two = start(waits, &second);
        int woken = 0, wanted = 1 + round % 2;
        while (woken < wanted) {
            long now = wake_op(over_5);
            CHECK(now >= 0 && now <= wanted - woken);
            woken += (int)now;
            if (now == 0) pause_ms(1);
        }
        CHECK(join(one) == &first);
        if (round % 2 == 0) {
            while (futex(&second, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0) == 0) pause_ms(1);
        }
        CHECK(join(two) == &second);
    }
    return 0;
}
