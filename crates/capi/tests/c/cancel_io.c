/* Cancels in the waits for words, fibers and descriptors. */
#include "cancel.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

static daiko_event go = DAIKO_EVENT_AUTO_INITIALIZER;
static uint8_t word8;
static uint16_t word16;
static uint32_t word32;
static void *pointer;
static uint64_t word64, told64;
static daiko_fiber *target;
static void *any;
static int ends[2], listener, peer, stop, taken;
static size_t done;
static char byte, bytes[1 << 16];

static void *awaits_go(void *none) { OK(daiko_event_wait(&go)); return none; }

/* A cancelled join leaves the reference to the next one. */
static void start_target(void)
{
    if (!target)
        OK(daiko_spawn(&target, NULL, awaits_go, NULL));
}

static void join_is_over(void)
{
    OK(daiko_event_set(&go));
    target = NULL;
}

static void fill(void)
{
    while (write(ends[1], bytes, sizeof bytes) > 0) {}
}

static void drain(void)
{
    while (read(ends[0], bytes, sizeof bytes) > 0) {}
}

static void knock(void)
{
    struct sockaddr_un name;
    socklen_t size = sizeof name;
    OK(getsockname(listener, (struct sockaddr *)&name, &size));
    OK(connect(peer = socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, size));
}

static void tell(void)
{
    __atomic_store_n(&told64, 1, __ATOMIC_RELEASE);
    OK(daiko_watch_notify(NULL, &told64, &done));
    CHECK(done, 1);
}

#define CASES(X) \
    X(watch_u8, word8 = 1, code = daiko_watch_u8(&word8, DAIKO_CHANGED_FROM, 1, NULL, NULL), \
      __atomic_store_n(&word8, 255, __ATOMIC_RELEASE)) \
    X(watch_u16, word16 = 0, code = daiko_watch_u16(&word16, DAIKO_AT_LEAST, 1 << 15, &far, NULL), \
      __atomic_store_n(&word16, 1 << 15, __ATOMIC_RELEASE)) \
    X(watch_ptr, pointer = NULL, code = daiko_watch_ptr(&pointer, DAIKO_EQUAL, &byte, NULL, NULL), \
      __atomic_store_n(&pointer, &byte, __ATOMIC_RELEASE)) \
    X(watch_u32, word32 = 0, code = daiko_watch_u32(&word32, DAIKO_EQUAL, 1, NULL, NULL), \
      __atomic_store_n(&word32, 1, __ATOMIC_RELEASE)) \
    X(watch_u64, word64 = 0, code = daiko_watch_u64(&word64, DAIKO_AT_LEAST, 1, &far, NULL), \
      __atomic_store_n(&word64, 1, __ATOMIC_RELEASE)) \
    X(watch_told_u64, told64 = 0, \
      code = daiko_watch_told_u64(&told64, DAIKO_ANY_BIT, 1, NULL, NULL), tell()) \
    X(park, , code = daiko_park(), OK(daiko_unpark(waiter))) \
    X(park_until, , code = daiko_park_until(&far), OK(daiko_unpark(waiter))) \
    X(yield, stop = 0, while ((code = daiko_yield()) == 0 && !stop) {}, stop = 1) \
    X(join, start_target(), code = daiko_join(target, &any), join_is_over()) \
    X(join_until, start_target(), code = daiko_join_until(target, &any, &far), join_is_over()) \
    X(runtime_run, , code = daiko_runtime_run(NULL, awaits_go, NULL, NULL), \
      OK(daiko_event_set(&go)); OK(daiko_yield()); OK(daiko_event_set(&go))) \
    X(read, drain(), code = daiko_read(ends[0], &byte, 1, NULL, &done), \
      CHECK(write(ends[1], "x", 1), 1)) \
    X(poll_fd, drain(), code = daiko_poll_fd(ends[0], POLLIN, &far, NULL), \
      CHECK(write(ends[1], "x", 1), 1)) \
    X(write, fill(), code = daiko_write(ends[1], &byte, 1, NULL, &done), drain()) \
    X(accept, , code = daiko_accept(listener, NULL, NULL, &far, &taken), knock())

CASES(X)
#define NAMED(name, before, wait, wake) CASE(name)
static const struct wait_case cases[] = { CASES(NAMED) };

static void *run(void *none)
{
    struct sockaddr_un name = { AF_UNIX, "" };
    OK(pipe(ends));
    OK(fcntl(ends[0], F_SETFL, O_NONBLOCK));
    OK(fcntl(ends[1], F_SETFL, O_NONBLOCK));
    CHECK((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0, 1);
    OK(bind(listener, (struct sockaddr *)&name, sizeof name.sun_family));
    OK(listen(listener, 8));
    run_cases(cases, sizeof cases / sizeof *cases);
    return none;
}

int main(void)
{
    in_runtime(1, run);
    return 0;
}
