/* Calls each function with bad input, from a thread and from a fiber: a code, never a crash. */
#include "check.h"
#include <poll.h>

static void report(const char *name, int code, int expected, const char *text)
{
    printf("bad input %.*s\n", (int)strcspn(name, "("), name);
    if (code != expected) {
        fprintf(stderr, "%s is %d, not %s\n", name, code, text);
        _Exit(1);
    }
}
#define BAD(call, code) report(#call, call, code, #code)
#define NONE(call) BAD(call, EINVAL)

static void *returns(void *argument) { return argument; }
static size_t looks(void *none) { (void)none; return 0; }
static void again(void *flag) { CHECK(daiko_once(flag, again, flag), EDEADLK); }

static void null_pointers(void)
{
    int fd;
    NONE(daiko_runtime_attr_init(NULL, 0)); NONE(daiko_runtime_new(NULL, NULL));
    NONE(daiko_runtime_run(NULL, NULL, NULL, NULL)); NONE(daiko_runtime_shutdown(NULL, NULL));
    NONE(daiko_default_runtime(NULL)); NONE(daiko_set_preset(NULL, 9));
    NONE(daiko_fiber_attr_init(NULL, 0)); NONE(daiko_spawn(NULL, NULL, NULL, NULL));
    NONE(daiko_spawn_on(NULL, NULL, NULL, returns, NULL)); NONE(daiko_join(NULL, NULL));
    NONE(daiko_join_until(NULL, NULL, NULL)); NONE(daiko_detach(NULL)); NONE(daiko_cancel(NULL));
    NONE(daiko_fiber_retain(NULL)); NONE(daiko_fiber_release(NULL)); NONE(daiko_unpark(NULL));
    NONE(daiko_fiber_name(NULL, NULL, 0)); NONE(daiko_sleep_until(NULL));
    NONE(daiko_mutex_init(NULL)); NONE(daiko_mutex_destroy(NULL)); NONE(daiko_mutex_lock(NULL));
    NONE(daiko_mutex_lock_until(NULL, NULL)); NONE(daiko_mutex_trylock(NULL));
    NONE(daiko_mutex_unlock(NULL)); NONE(daiko_condvar_init(NULL));
    NONE(daiko_condvar_wait(NULL, NULL)); NONE(daiko_condvar_wait_until(NULL, NULL, NULL));
    NONE(daiko_condvar_notify_one(NULL)); NONE(daiko_condvar_notify_all(NULL));
    NONE(daiko_rwlock_init(NULL)); NONE(daiko_rwlock_read(NULL)); NONE(daiko_rwlock_write(NULL));
    NONE(daiko_rwlock_read_until(NULL, NULL)); NONE(daiko_rwlock_write_until(NULL, NULL));
    NONE(daiko_rwlock_tryread(NULL)); NONE(daiko_rwlock_trywrite(NULL));
    NONE(daiko_rwlock_unlock(NULL)); NONE(daiko_semaphore_init(NULL, 0));
    NONE(daiko_semaphore_acquire(NULL, 1)); NONE(daiko_semaphore_acquire_until(NULL, 1, NULL));
    NONE(daiko_semaphore_tryacquire(NULL, 1)); NONE(daiko_semaphore_release(NULL, 1));
    NONE(daiko_barrier_init(NULL, 1)); NONE(daiko_barrier_wait(NULL, NULL));
    NONE(daiko_barrier_wait_until(NULL, NULL, NULL)); NONE(daiko_event_init(NULL, 0));
    NONE(daiko_event_set(NULL)); NONE(daiko_event_reset(NULL)); NONE(daiko_event_wait(NULL));
    NONE(daiko_event_wait_until(NULL, NULL)); NONE(daiko_once(NULL, NULL, NULL));
    NONE(daiko_channel_new(NULL, 0)); NONE(daiko_channel_send(NULL, NULL));
    NONE(daiko_channel_recv(NULL, NULL)); NONE(daiko_channel_send_until(NULL, NULL, NULL));
    NONE(daiko_channel_recv_until(NULL, NULL, NULL)); NONE(daiko_channel_trysend(NULL, NULL));
    NONE(daiko_channel_tryrecv(NULL, NULL)); NONE(daiko_channel_close(NULL));
    NONE(daiko_watch_notify(NULL, NULL, NULL)); NONE(daiko_poller_attr_init(NULL, 0));
    NONE(daiko_poller_register(NULL, NULL, NULL, looks, NULL)); NONE(daiko_blocking(NULL, NULL, NULL));
    NONE(daiko_poller_set_active(NULL, 0)); NONE(daiko_poller_unregister(NULL));
    NONE(daiko_read(0, NULL, 1, NULL, NULL)); NONE(daiko_write(1, NULL, 1, NULL, NULL));
    NONE(daiko_accept(0, NULL, NULL, NULL, NULL)); BAD(daiko_accept(-1, NULL, NULL, NULL, &fd), EBADF);
    NONE(daiko_connect(0, NULL, 0, NULL)); NONE(daiko_poll_fd(0, POLLIN | POLLOUT, NULL, NULL));
    BAD(daiko_poll_fd(-1, POLLIN, NULL, NULL), EBADF); NONE(daiko_key_create(NULL, NULL));
    NONE(daiko_key_delete(7)); NONE(daiko_key_set(7, NULL)); BAD(daiko_key_get(7) != NULL, 0);
    BAD(daiko_runtime_free(NULL), 0); BAD(daiko_channel_free(NULL), 0);
    BAD(daiko_strerror(-1) == NULL, 0); BAD(daiko_version() == NULL, 0);
    BAD(daiko_version_number() != DAIKO_VERSION_NUMBER, 0);
}

static void *as_fiber(void *none)
{
    struct timespec now = after(0), wrong = { 0, 1000000000 };
    daiko_event never = DAIKO_EVENT_MANUAL_INITIALIZER;
    daiko_once_flag flag = DAIKO_ONCE_INITIALIZER;
    uint64_t words[2] = { 0, 0 };
    null_pointers();
    BAD(daiko_event_wait_until(&never, &now), ETIMEDOUT);
    NONE(daiko_event_wait_until(&never, &wrong)); BAD(daiko_park_until(&now), 0);
    NONE(daiko_park_until(NULL)); NONE(daiko_watch_u64(words, 4, 0, NULL, NULL));
    NONE(daiko_watch_u8(NULL, 0, 1, NULL, NULL)); NONE(daiko_watch_u16(NULL, 0, 1, NULL, NULL));
    NONE(daiko_watch_ptr(NULL, 0, NULL, NULL, NULL)); NONE(daiko_watch_u32(NULL, 0, 1, NULL, NULL));
    NONE(daiko_watch_u32((uint32_t *)((char *)words + 1), 0, 1, NULL, NULL));
    BAD(daiko_watch_told_u64(words, DAIKO_EQUAL, 1, &now, NULL), ETIMEDOUT);
    BAD(daiko_join(daiko_self(), NULL), EDEADLK); NONE(daiko_no_suspend_end());
    OK(daiko_once(&flag, again, &flag));
    return none;
}

int main(void)
{
    daiko_runtime_attr attr = { sizeof attr, DAIKO_VERSION_NUMBER + 1, 0, 0, 0, 0, 0 };
    daiko_fiber_attr fiber = { sizeof fiber - 1, 0, 0, 0, NULL };
    daiko_semaphore full = DAIKO_SEMAPHORE_INITIALIZER(0x7fffffff);
    daiko_mutex mutex = DAIKO_MUTEX_INITIALIZER;
    daiko_runtime *runtime;
    null_pointers();
    BAD(daiko_runtime_new(&runtime, &attr), ENOTSUP); attr.version--; attr.workers = 513;
    NONE(daiko_runtime_new(&runtime, &attr)); NONE(daiko_spawn(NULL, &fiber, returns, NULL));
    BAD(daiko_mutex_unlock(&mutex), EPERM); BAD(daiko_semaphore_release(&full, 1), EOVERFLOW);
    BAD(daiko_park(), EPERM); BAD(daiko_yield(), EPERM); BAD(daiko_cancel_clear(), EPERM);
    BAD(daiko_no_suspend_begin(), EPERM); BAD(daiko_no_suspend_end(), EPERM);
    BAD(daiko_cancelled(), 0); BAD(daiko_self() != NULL, 0);
    in_runtime(1, as_fiber);
    return 0;
}
