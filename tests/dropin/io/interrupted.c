// A handler without SA_RESTART ends blocking reads, accepts and sends with EINTR; with it they go
// on; poll and epoll_wait end in both cases.
#include "../check.h"
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { READ, RECV, ACCEPT, SEND, POLL, EPOLL, CALLS };
static int pipe_ends[2], pair[2], full[2], listener, epoll, finished[CALLS];
static __thread int handled;
static int total;

static void handle(UNUSED int signal) {
    handled++;
    __atomic_add_fetch(&total, 1, __ATOMIC_RELEASE);
}

static long perform(long call) {
    static char block[65536];
    char byte;
    struct epoll_event event;
    switch (call) {
    case READ: return read(pipe_ends[0], &byte, 1);
    case RECV: return recv(pair[0], &byte, 1, 0);
    case ACCEPT: return accept(listener, NULL, NULL);
    case SEND: while (send(full[0], block, sizeof block, 0) > 0) {} return -1;
    case POLL: return poll(&(struct pollfd){pipe_ends[0], POLLIN, 0}, 1, -1);
    default: return epoll_wait(epoll, &event, 1, -1);
    }
}

static void *fails(void *argument) {
    long call = (long)argument;
    EQUAL(perform(call), -1);
    EQUAL(errno, EINTR);
    CHECK(handled > 0);
    __atomic_store_n(&finished[call], 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *restarts(UNUSED void *argument) {
    EQUAL(perform(READ), 1);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR2, &action, NULL));
    MUST(pipe(pipe_ends));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, full));
    listener = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(listen(listener, 1));
    epoll = (int)MUST(epoll_create1(0));
    pthread_t threads[CALLS];
    for (long i = 0; i < CALLS; i++) threads[i] = start(fails, (void *)i);
    for (int i = 0; i < CALLS; i++) {
        while (!__atomic_load_n(&finished[i], __ATOMIC_ACQUIRE)) {
            EQUAL(pthread_kill(threads[i], i < POLL ? SIGUSR1 : SIGUSR2), 0);
            pause_ms(1);
        }
        join(threads[i]);
    }
    pthread_t reader = start(restarts, NULL);
    for (int i = 0; i < 20; i++) {
        int seen = __atomic_load_n(&total, __ATOMIC_ACQUIRE);
        EQUAL(pthread_kill(reader, SIGUSR2), 0);
        while (__atomic_load_n(&total, __ATOMIC_ACQUIRE) == seen) pause_ms(1);
    }
    EQUAL(write(pipe_ends[1], "x", 1), 1);
    join(reader);
    return 0;
}
