// poll, ppoll, select, epoll_wait and epoll_pwait: ready at once, later by another thread, or not
// before their timeout.
#include "../check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>

enum { CALLS = 5, ROUNDS = 40 };

// Returns the number of ready descriptors of the one that is given; -1 ms is without a limit.
static int wait_by(long call, int descriptor, int ms) {
    struct pollfd one = {.fd = descriptor, .events = POLLIN};
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    struct timeval interval = {ms / 1000, ms % 1000 * 1000};
    if (call == 0) return (int)MUST(poll(&one, 1, ms));
    if (call == 1) return (int)MUST(ppoll(&one, 1, ms < 0 ? NULL : &time, NULL));
    if (call == 2) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(descriptor, &set);
        int ready = (int)MUST(select(descriptor + 1, &set, NULL, NULL, ms < 0 ? NULL : &interval));
        EQUAL(FD_ISSET(descriptor, &set) != 0, ready);
        return ready;
    }
    int epoll = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event));
    event.data.fd = -1;
    int ready = (int)MUST(call == 3 ? epoll_wait(epoll, &event, 1, ms)
                                    : epoll_pwait(epoll, &event, 1, ms, NULL));
    if (ready) EQUAL(event.data.fd, descriptor);
    MUST(close(epoll));
    return ready;
}

static void *sets(void *argument) {
    EQUAL(eventfd_write((int)(long)argument, 1), 0);
    return NULL;
}

static void *run(void *argument) {
    long call = (long)argument;
    int descriptor = (int)MUST(eventfd(0, EFD_CLOEXEC));
    for (int round = 0; round < ROUNDS; round++) {
        eventfd_t value;
        EQUAL(wait_by(call, descriptor, 0), 0);
        pthread_t thread = start(sets, (void *)(long)descriptor);
        EQUAL(wait_by(call, descriptor, round % 2 ? -1 : 3600000), 1);
        join(thread);
        EQUAL(wait_by(call, descriptor, 0), 1);
        // The read of an eventfd suspends as well.
        EQUAL(eventfd_read(descriptor, &value), 0);
        EQUAL(value, 1);
        thread = start(sets, (void *)(long)descriptor);
        EQUAL(eventfd_read(descriptor, &value), 0);
        join(thread);
    }
    struct timespec end = in_ms(CLOCK_MONOTONIC, 20);
    EQUAL(wait_by(call, descriptor, 20), 0);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    MUST(close(descriptor));
    return NULL;
}

int main(void) {
    pthread_t threads[2 * CALLS];
    for (long i = 0; i < 2 * CALLS; i++) threads[i] = start(run, (void *)(i % CALLS));
    for (int i = 0; i < 2 * CALLS; i++) join(threads[i]);
    struct timespec end = in_ms(CLOCK_MONOTONIC, 20);
    EQUAL(poll(NULL, 0, 20), 0);
    CHECK(is_reached(CLOCK_MONOTONIC, end));
    return 0;
}
