// SO_RCVTIMEO and SO_SNDTIMEO end blocking calls with EAGAIN; shutdown by another thread
// wakes a reader, and so does the close of the other end.
#include "../check.h"
#include <sys/socket.h>
#include <sys/time.h>

static int pair[2];

static void *expires(UNUSED void *argument) {
    int own[2];
    static char block[65536];
    char byte;
    struct timeval time = {0, 20000};
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, own));
    MUST(setsockopt(own[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    MUST(setsockopt(own[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
    EQUAL(recv(own[0], &byte, 1, 0), -1);
    EQUAL(errno, EAGAIN);
    EQUAL(read(own[0], &byte, 1), -1);
    EQUAL(errno, EAGAIN);
    while (send(own[0], block, sizeof block, 0) > 0) {}
    EQUAL(errno, EAGAIN);
    MUST(close(own[0]));
    MUST(close(own[1]));
    return NULL;
}

static void *reads(UNUSED void *argument) {
    char byte;
    EQUAL(read(pair[0], &byte, 1), 0);
    return NULL;
}

int main(void) {
    run_threads(4, expires);
    for (int i = 0; i < 20; i++) {
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        pthread_t reader = start(reads, NULL);
        if (i % 4 == 1) pause_ms(1);
        if (i % 2) MUST(shutdown(pair[0], SHUT_RD));
        else MUST(close(pair[1]));
        join(reader);
        MUST(close(pair[0]));
        if (i % 2) MUST(close(pair[1]));
    }
    return 0;
}
