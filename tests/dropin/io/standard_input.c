// A thread that waits for standard input by read, getchar or scanf suspends alone, and gets the
// bytes that another process writes there.
#include "../check.h"
#include <sched.h>

enum { LINES = 50 };
static int finish;
static long yields;

static void *reads(UNUSED void *argument) {
    char bytes[5] = "";
    EQUAL(read(0, bytes, 4), 4);
    CHECK(strcmp(bytes, "raw\n") == 0);
    EQUAL(getchar(), '!');
    EQUAL(getchar(), '\n');
    for (int i = 0; i < LINES; i++) {
        int number;
        EQUAL(scanf("%d", &number), 1);
        EQUAL(number, i);
    }
    EQUAL(getchar(), '\n');
    EQUAL(getchar(), EOF);
    __atomic_store_n(&finish, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *works(UNUSED void *argument) {
    while (!__atomic_load_n(&finish, __ATOMIC_ACQUIRE)) {
        sched_yield();
        __atomic_add_fetch(&yields, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(void) {
    int ends[2];
    MUST(pipe(ends));
    pid_t writer = MUST(fork());
    if (writer == 0) {
        EQUAL(write(ends[1], "raw\n", 4), 4);
        pause_ms(5);
        EQUAL(write(ends[1], "!\n", 2), 2);
        for (int i = 0; i < LINES; i++) {
            dprintf(ends[1], "%d\n", i);
            if (i % 10 == 0) pause_ms(1);
        }
        return 0;
    }
    MUST(dup2(ends[0], 0));
    MUST(close(ends[0]));
    MUST(close(ends[1]));
    pthread_t reader = start(reads, NULL), worker = start(works, NULL);
    join(reader);
    join(worker);
    CHECK(yields > 0);
    EQUAL(status_of(writer), 0);
    return 0;
}
