// Streams over pipes: a thread that is suspended in fgets or in a full fflush holds the lock of
// that stream only, and every line arrives whole.
#include "../check.h"

enum { PAIRS = 4, LINES = 500 };

static void *writes(void *argument) {
    FILE *file = fdopen((int)(long)argument, "w");
    CHECK(file);
    for (int i = 0; i < LINES; i++) {
        CHECK(fprintf(file, "line %d of %ld, which is rather long to fill the pipe\n", i,
                      (long)argument) > 0);
        if (i % 50 == 0) EQUAL(fflush(file), 0);
        if (i % 100 == 0) pause_ms(1);
    }
    EQUAL(fclose(file), 0);
    return NULL;
}

static void *reads(void *argument) {
    FILE *file = fdopen((int)(long)argument, "r");
    CHECK(file);
    char line[128];
    int lines = 0, number;
    while (fgets(line, sizeof line, file)) {
        EQUAL(sscanf(line, "line %d of", &number), 1);
        EQUAL(number, lines++);
    }
    EQUAL(lines, LINES);
    EQUAL(fclose(file), 0);
    return NULL;
}

int main(void) {
    pthread_t threads[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        int ends[2];
        MUST(pipe(ends));
        threads[2 * i] = start(reads, (void *)(long)ends[0]);
        threads[2 * i + 1] = start(writes, (void *)(long)ends[1]);
    }
    for (int i = 0; i < 2 * PAIRS; i++) join(threads[i]);
    return 0;
}
