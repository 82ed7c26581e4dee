// Blocking calls leave O_NONBLOCK of the file as it is, also while they wait, and calls on files
// that have it return EAGAIN at once.
#include "../check.h"
#include <fcntl.h>
#include <sys/socket.h>

enum { ROUNDS = 20 };
static int ends[2], pair[2], began;

static int is_nonblocking(int descriptor) {
    return (MUST(fcntl(descriptor, F_GETFL)) & O_NONBLOCK) != 0;
}

static void *blocks(UNUSED void *argument) {
    char byte;
    for (int round = 0; round < ROUNDS; round++) {
        __atomic_add_fetch(&began, 1, __ATOMIC_RELEASE);
        EQUAL(read(ends[0], &byte, 1), 1);
        EQUAL(recv(pair[0], &byte, 1, 0), 1);
    }
    return NULL;
}

int main(void) {
    MUST(pipe(ends));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pthread_t reader = start(blocks, NULL);
    for (int round = 1; round <= ROUNDS; round++) {
        while (__atomic_load_n(&began, __ATOMIC_ACQUIRE) < round) pause_ms(0);
        for (int i = 0; i < 10; i++) {
            for (int j = 0; j < 2; j++) EQUAL(is_nonblocking(ends[j]) + is_nonblocking(pair[j]), 0);
            if (i == 5) pause_ms(1);
        }
        EQUAL(write(ends[1], "x", 1), 1);
        EQUAL(send(pair[1], "x", 1, 0), 1);
    }
    join(reader);

    MUST(fcntl(ends[0], F_SETFL, O_NONBLOCK));
    MUST(fcntl(pair[0], F_SETFL, O_NONBLOCK));
    char byte;
    for (int i = 0; i < 3; i++) {
        EQUAL(read(ends[0], &byte, 1), -1);
        EQUAL(errno, EAGAIN);
        EQUAL(recv(pair[0], &byte, 1, 0), -1);
        EQUAL(errno, EAGAIN);
        EQUAL(recv(pair[1], &byte, 1, MSG_DONTWAIT), -1);
        EQUAL(errno, EAGAIN);
    }
    EQUAL(is_nonblocking(ends[0]) + is_nonblocking(pair[0]), 2);
    EQUAL(is_nonblocking(ends[1]) + is_nonblocking(pair[1]), 0);
    return 0;
}
