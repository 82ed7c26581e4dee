// flockfile over a sleep keeps the lines of threads apart, counts, and belongs to its thread.
#include "../check.h"

enum { THREADS = 8, ROUNDS = 10 };
static FILE *file;

static void *beside(UNUSED void *argument) {
    CHECK(ftrylockfile(file) != 0);
    return NULL;
}

static void *run(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        flockfile(file);
        EQUAL(fprintf(file, "%ld ", (long)argument), 2);
        pause_ms(1);
        if (round == 0) join(start(beside, NULL));
        EQUAL(ftrylockfile(file), 0);
        fprintf(file, "%ld\n", (long)argument);
        funlockfile(file);
        funlockfile(file);
        // Without a lock of its own, one call is one line.
        fprintf(file, "%ld %ld\n", (long)argument, (long)argument);
    }
    return NULL;
}

int main(void) {
    file = tmpfile();
    if (file == NULL) SKIP("no temporary file can be made: errno %d", errno);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    rewind(file);
    int one, two, lines = 0;
    while (fscanf(file, "%d %d\n", &one, &two) == 2) {
        EQUAL(one, two);
        lines++;
    }
    EQUAL(lines, THREADS * ROUNDS * 2);
    EQUAL(fclose(file), 0);
    return 0;
}
