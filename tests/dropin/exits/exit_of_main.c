// After pthread_exit in main the process lives until its last thread ends, exits with code 0, runs
// exit handlers then, and the first thread can be joined.
#define ENDS_ELSEWHERE
#include "../check.h"

static pthread_t first;
static int ends[2];

static void at_exit(void) { EQUAL(write(ends[1], "e", 1), 1); }

static void *outlives(UNUSED void *argument) {
    void *result;
    EQUAL(pthread_join(first, &result), 0);
    CHECK(result == &first);
    for (int i = 0; i < 5; i++) pause_ms(1);
    EQUAL(write(ends[1], "t", 1), 1);
    return NULL;
}

static void clean(UNUSED void *argument) { EQUAL(write(ends[1], "c", 1), 1); }

static void child(void) {
    first = pthread_self();
    EQUAL(atexit(at_exit), 0);
    EQUAL(pthread_detach(start(outlives, NULL)), 0);
    pthread_cleanup_push(clean, NULL);
    pthread_exit(&first);
    pthread_cleanup_pop(0);
}

int main(void) {
    for (int i = 0; i < 20; i++) {
        MUST(pipe(ends));
        pid_t pid = MUST(fork());
        if (pid == 0) child();
        MUST(close(ends[1]));
        char bytes[8] = "";
        int got = 0;
        for (long more; (more = MUST(read(ends[0], bytes + got, 4))) > 0;) got += (int)more;
        if (strcmp(bytes, "cte") != 0) FAIL("the order is %s, not cte", bytes);
        MUST(close(ends[0]));
        EQUAL(status_of(pid), 0);
    }
    return 0;
}
