// read, write, readv and writev of pipes suspend the thread only, move all bytes in order, and see
// the end of the pipe.
#include "../check.h"
#include <signal.h>
#include <sys/uio.h>

enum { PAIRS = 6, BYTES = 300000 };

static void *writes(void *argument) {
    int end = (int)(long)argument;
    unsigned char block[7000];
    long sent = 0;
    while (sent < BYTES) {
        long size = 1 + sent % (long)sizeof block;
        if (size > BYTES - sent) size = BYTES - sent;
        for (long i = 0; i < size; i++) block[i] = (unsigned char)(sent + i);
        struct iovec parts[] = {{NULL, 0}, {block, size / 2}, {block + size / 2, size - size / 2}};
        sent += sent % 2 ? MUST(writev(end, parts, 3)) : MUST(write(end, block, size));
    }
    MUST(close(end));
    return NULL;
}

static void *reads(void *argument) {
    int end = (int)(long)argument;
    unsigned char block[5000];
    long got = 0, more;
    do {
        struct iovec parts[] = {{block, 1000}, {block + 1000, 4000}};
        more = got % 2 ? MUST(readv(end, parts, 2)) : MUST(read(end, block, sizeof block));
        for (long i = 0; i < more; i++) EQUAL(block[i], (unsigned char)(got + i));
        got += more;
    } while (more > 0);
    EQUAL(got, BYTES);
    MUST(close(end));
    return NULL;
}

int main(void) {
    pthread_t threads[2 * PAIRS];
    int ends[2];
    for (int i = 0; i < PAIRS; i++) {
        MUST(pipe(ends));
        threads[2 * i] = start(reads, (void *)(long)ends[0]);
        threads[2 * i + 1] = start(writes, (void *)(long)ends[1]);
    }
    for (int i = 0; i < 2 * PAIRS; i++) join(threads[i]);
    MUST(pipe(ends));
    signal(SIGPIPE, SIG_IGN);
    MUST(close(ends[0]));
    EQUAL(write(ends[1], "x", 1), -1);
    EQUAL(errno, EPIPE);
    EQUAL(read(ends[0], ends, 1), -1);
    EQUAL(errno, EBADF);
    return 0;
}
