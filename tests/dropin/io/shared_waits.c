// Threads wait for the same descriptor in both directions, for one of several, for a listener
// together, and for numbers that are used again, while the process closes all numbers that it does
// not know.
#include "../check.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

enum { PAIRS = 20, BYTES = 1 << 20, CALLERS = 8, ROUNDS = 100 };
static int pairs[PAIRS][2], listener;

static void *reads(void *argument) {
    int descriptor = *(int *)argument;
    static __thread char bytes[5000];
    long all = 0, more;
    while ((more = MUST(read(descriptor, bytes, sizeof bytes))) > 0) {
        for (long i = 0; i < more; i++) EQUAL(bytes[i], (char)((all + i) % 251));
        all += more;
    }
    EQUAL(all, BYTES);
    return NULL;
}

static void *writes(void *argument) {
    int descriptor = *(int *)argument;
    char *bytes = malloc(BYTES);
    for (long i = 0; i < BYTES; i++) bytes[i] = (char)(i % 251);
    // In parts, the first of which fits.
    for (long all = 0; all < BYTES;) {
        long part = all == 0 ? 1 : BYTES - all;
        all += MUST(write(descriptor, bytes + all, (size_t)part));
    }
    MUST(shutdown(descriptor, SHUT_WR));
    free(bytes);
    return NULL;
}

static void *accepts(UNUSED void *argument) {
    int peer = (int)MUST(accept(listener, NULL, NULL));
    EQUAL(write(peer, "x", 1), 1);
    MUST(close(peer));
    return NULL;
}

static void *polls(void *argument) {
    int *ends = argument;
    struct pollfd all[] = {{ends[0], POLLIN, 0}, {-1, POLLIN, 0}, {ends[2], POLLIN, 0}, {ends[2], POLLPRI, 0}};
    EQUAL(poll(all, 4, -1), 1);
    EQUAL(all[2].revents, POLLIN);
    EQUAL(all[0].revents | all[1].revents | all[3].revents, 0);
    return NULL;
}

static void *reads_one(void *argument) {
    char byte;
    EQUAL(read(*(int *)argument, &byte, 1), 1);
    EQUAL(byte, 'n');
    return NULL;
}

int main(void) {
    pthread_t threads[PAIRS][4];
    for (int i = 0; i < PAIRS; i++) {
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]));
        for (int j = 0; j < 4; j++) threads[i][j] = start(j / 2 ? writes : reads, &pairs[i][j % 2]);
    }
    for (int i = 0; i < PAIRS; i++) {
        for (int j = 0; j < 4; j++) join(threads[i][j]);
    }
    listener = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(listen(listener, CALLERS));
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    MUST(getsockname(listener, (struct sockaddr *)&address, &length));
    pthread_t callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) callers[i] = start(accepts, NULL);
    for (int i = 0; i < CALLERS; i++) {
        char byte;
        int peer = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(peer, (struct sockaddr *)&address, length));
        EQUAL(read(peer, &byte, 1), 1);
        EQUAL(read(peer, &byte, 1), 0);
        MUST(close(peer));
    }
    for (int i = 0; i < CALLERS; i++) join(callers[i]);
    for (int round = 0; round < ROUNDS; round++) {
        int ends[4];
        MUST(pipe(ends));
        MUST(pipe(ends + 2));
        pthread_t poller = start(polls, ends), reader = start(reads_one, ends);
        if (round % 3 == 0) pause_ms(1);
        if (round % 10 == 0) MUST(close_range(200, ~0U, 0));
        EQUAL(write(ends[3], "x", 1), 1);
        join(poller);
        EQUAL(write(ends[1], "n", 1), 1);
        join(reader);
        for (int i = 0; i < 4; i++) MUST(close(ends[i]));
    }
    return 0;
}
