// Threads that read, write, append to and sync regular files, with offsets or without, see the
// bytes that they wrote; files are no pollable descriptors.
#include "../check.h"
#include <fcntl.h>
#include <sys/stat.h>

enum { THREADS = 6, BLOCKS = 50, SIZE = 512 };
static int shared, appended;

static void *run(void *argument) {
    long self = (long)argument;
    char block[SIZE], back[SIZE];
    memset(block, (int)('a' + self), SIZE);
    for (int i = 0; i < BLOCKS; i++) {
        off_t place = (i * THREADS + self) * SIZE;
        EQUAL(pwrite(shared, block, SIZE, place), SIZE);
        EQUAL(pread(shared, back, SIZE, place), SIZE);
        EQUAL(memcmp(block, back, SIZE), 0);
        EQUAL(write(appended, block, SIZE), SIZE);
        if (i % 25 == 0) MUST(fsync(shared));
    }
    return NULL;
}

static int temporary(int flags) {
    char name[] = "dropin-XXXXXX";
    int descriptor = (int)MUST(mkostemp(name, flags));
    MUST(unlink(name));
    return descriptor;
}

int main(void) {
    shared = temporary(O_CLOEXEC);
    appended = temporary(O_APPEND);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    struct stat status;
    MUST(fstat(appended, &status));
    EQUAL(status.st_size, THREADS * BLOCKS * SIZE);
    MUST(lseek(appended, 0, SEEK_SET));
    int seen[THREADS] = {0};
    char block[SIZE];
    while (MUST(read(appended, block, SIZE)) == SIZE) {
        for (int i = 1; i < SIZE; i++) EQUAL(block[i], block[0]);
        seen[block[0] - 'a']++;
    }
    for (int i = 0; i < THREADS; i++) EQUAL(seen[i], BLOCKS);
    return 0;
}
