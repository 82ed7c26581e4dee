/* Calls each function that may wait in a cancelled fiber: it returns ECANCELED at once, also where
 * there is nothing to wait for, until the cancel is cleared. */
#include "check.h"
#include <poll.h>

static daiko_mutex mutex = DAIKO_MUTEX_INITIALIZER;
static daiko_condvar condvar = DAIKO_CONDVAR_INITIALIZER;
static daiko_rwlock lock = DAIKO_RWLOCK_INITIALIZER;
static daiko_semaphore semaphore = DAIKO_SEMAPHORE_INITIALIZER(9);
static daiko_barrier barrier;
static daiko_event event = DAIKO_EVENT_MANUAL_INITIALIZER;
static daiko_once_flag once = DAIKO_ONCE_INITIALIZER;
static struct timespec far;
static int expected;

static void report(const char *name, int code)
{
    if (expected == ECANCELED)
        printf("cancelled %.*s\n", (int)(strchr(name, '(') - name), name);
    if (code != expected) {
        fprintf(stderr, "%s is %d, not %d\n", name, code, expected);
        _Exit(1);
    }
}
#define CALL(call) report(#call, call)

static void nothing(void *none) { (void)none; }
static void *returns(void *argument) { return argument; }
static size_t looks(void *none) { (void)none; return 0; }

static void call_all(daiko_runtime *other, daiko_fiber *ended, daiko_channel *channel,
                     daiko_poller *poller)
{
    void *any = NULL;
    size_t done;
    int fd;
    uint8_t word8 = 0;
    uint16_t word16 = 0;
    uint32_t word32 = 0;
    uint64_t word64 = 0;
    struct sockaddr name;
    CALL(daiko_runtime_run(NULL, returns, NULL, NULL)); CALL(daiko_runtime_shutdown(other, NULL));
    CALL(daiko_runtime_free(other)); CALL(daiko_join(ended, NULL));
    CALL(daiko_join_until(ended, NULL, &far)); CALL(daiko_park()); CALL(daiko_park_until(&far));
    CALL(daiko_yield()); CALL(daiko_sleep_until(&far)); CALL(daiko_mutex_lock(&mutex));
    CALL(daiko_mutex_lock_until(&mutex, &far)); CALL(daiko_condvar_wait(&condvar, &mutex));
    CALL(daiko_condvar_wait_until(&condvar, &mutex, &far)); CALL(daiko_rwlock_read(&lock));
    CALL(daiko_rwlock_read_until(&lock, &far)); CALL(daiko_rwlock_write(&lock));
    CALL(daiko_rwlock_write_until(&lock, &far)); CALL(daiko_semaphore_acquire(&semaphore, 1));
    CALL(daiko_semaphore_acquire_until(&semaphore, 1, &far));
    CALL(daiko_barrier_wait(&barrier, NULL)); CALL(daiko_barrier_wait_until(&barrier, NULL, &far));
    CALL(daiko_event_wait(&event)); CALL(daiko_event_wait_until(&event, &far));
    CALL(daiko_once(&once, nothing, NULL)); CALL(daiko_channel_send(channel, NULL));
    CALL(daiko_channel_recv(channel, &any)); CALL(daiko_channel_send_until(channel, NULL, &far));
    CALL(daiko_channel_recv_until(channel, &any, &far));
    CALL(daiko_watch_u8(&word8, DAIKO_EQUAL, 0, NULL, NULL));
    CALL(daiko_watch_u16(&word16, DAIKO_EQUAL, 0, NULL, NULL));
    CALL(daiko_watch_ptr(&any, DAIKO_EQUAL, NULL, NULL, NULL));
    CALL(daiko_watch_u32(&word32, DAIKO_EQUAL, 0, NULL, NULL));
    CALL(daiko_watch_u64(&word64, DAIKO_EQUAL, 0, NULL, NULL));
    CALL(daiko_watch_told_u64(&word64, DAIKO_EQUAL, 0, NULL, NULL));
    CALL(daiko_blocking(returns, NULL, NULL)); CALL(daiko_poller_unregister(poller));
    CALL(daiko_read(0, &any, 1, NULL, &done)); CALL(daiko_write(1, "", 0, NULL, &done));
    CALL(daiko_accept(0, NULL, NULL, NULL, &fd)); CALL(daiko_connect(0, &name, sizeof name, NULL));
    CALL(daiko_poll_fd(1, POLLOUT, NULL, NULL));
}

static void *run(void *none)
{
    daiko_runtime *other;
    daiko_fiber *ended;
    daiko_channel *channel;
    daiko_poller *poller;
    far = after(1000);
    OK(daiko_runtime_new(&other, NULL));
    OK(daiko_spawn(&ended, NULL, returns, NULL));
    OK(daiko_channel_new(&channel, 1));
    OK(daiko_barrier_init(&barrier, 1));
    OK(daiko_event_set(&event));
    OK(daiko_poller_register(NULL, &poller, NULL, looks, NULL));
    OK(daiko_yield());
    expected = EBUSY;
    OK(daiko_no_suspend_begin());
    call_all(other, ended, channel, poller);
    OK(daiko_no_suspend_end());
    expected = ECANCELED;
    OK(daiko_cancel(daiko_self()));
    CHECK(daiko_cancelled(), 1);
    call_all(other, ended, channel, poller);
    OK(daiko_cancel_clear());
    CHECK(daiko_cancelled(), 0);
    OK(daiko_poller_unregister(poller));
    OK(daiko_runtime_free(other));
    OK(daiko_join(ended, NULL));
    OK(daiko_channel_free(channel));
    return none;
}

int main(void)
{
    in_runtime(1, run);
    return 0;
}
