// Threads that change the user as soon as they begin, and end: each kernel thread makes each
// change, also where it waits between two threads. Argument: rounds.
#include "../check.h"

enum { THREADS = 4 };

static void *changes(UNUSED void *argument) {
    MUST(setuid(getuid()));
    return NULL;
}

int main(int argc, char **argv) {
    for (long i = count(argc, argv, 500); i > 0; i--) run_threads(THREADS, changes);
    return 0;
}
