// accept, connect, send, recv and their kin between threads: an echo server with a thread for each
// connection, over TCP and UNIX sockets.
#include "../check.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { CLIENTS = 12, ROUNDS = 50 };
static struct sockaddr_storage address;
static socklen_t length;

static void *echoes(void *argument) {
    int connection = (int)(long)argument;
    char bytes[256];
    for (;;) {
        long got = MUST(recv(connection, bytes, sizeof bytes, 0));
        if (got == 0) break;
        struct iovec part = {bytes, (size_t)got};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        EQUAL(sendmsg(connection, &message, MSG_NOSIGNAL), got);
    }
    MUST(close(connection));
    return NULL;
}

static void *serves(void *argument) {
    int listener = (int)(long)argument;
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        long connection = i % 2 ? MUST(accept4(listener, NULL, NULL, SOCK_CLOEXEC))
                                : MUST(accept(listener, NULL, NULL));
        threads[i] = start(echoes, (void *)connection);
    }
    for (int i = 0; i < CLIENTS; i++) join(threads[i]);
    MUST(close(listener));
    return NULL;
}

static void *asks(UNUSED void *argument) {
    int connection = (int)MUST(socket(address.ss_family, SOCK_STREAM, 0));
    MUST(connect(connection, (struct sockaddr *)&address, length));
    for (int round = 0; round < ROUNDS; round++) {
        char sent[100], got[100];
        memset(sent, round, sizeof sent);
        EQUAL(send(connection, sent, sizeof sent, MSG_NOSIGNAL), sizeof sent);
        struct iovec part = {got, sizeof got};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (round % 2) EQUAL(recv(connection, got, sizeof got, MSG_WAITALL), sizeof got);
        else EQUAL(recvmsg(connection, &message, MSG_WAITALL), sizeof got);
        EQUAL(memcmp(sent, got, sizeof got), 0);
    }
    MUST(shutdown(connection, SHUT_WR));
    char end;
    EQUAL(recv(connection, &end, 1, 0), 0);
    MUST(close(connection));
    return NULL;
}

static void serve_and_ask(void) {
    int listener = (int)MUST(socket(address.ss_family, SOCK_STREAM, 0));
    MUST(bind(listener, (struct sockaddr *)&address, length));
    MUST(listen(listener, CLIENTS));
    length = sizeof address;
    MUST(getsockname(listener, (struct sockaddr *)&address, &length));
    pthread_t server = start(serves, (void *)(long)listener), clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) clients[i] = start(asks, NULL);
    for (int i = 0; i < CLIENTS; i++) join(clients[i]);
    join(server);
}

int main(void) {
    struct sockaddr_in *internet = (struct sockaddr_in *)&address;
    internet->sin_family = AF_INET;
    internet->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    length = sizeof *internet;
    serve_and_ask();
    memset(&address, 0, sizeof address);
    // The kernel chooses an abstract name.
    address.ss_family = AF_UNIX;
    length = sizeof(sa_family_t);
    serve_and_ask();
    return 0;
}
