/* Cancels in the waits for locks, times and channels. */
#include "cancel.h"

static daiko_mutex held, own = DAIKO_MUTEX_INITIALIZER;
static daiko_condvar condvar = DAIKO_CONDVAR_INITIALIZER;
static daiko_rwlock lock = DAIKO_RWLOCK_INITIALIZER;
static daiko_semaphore semaphore = DAIKO_SEMAPHORE_INITIALIZER(0);
static daiko_barrier barrier;
static daiko_event event = DAIKO_EVENT_AUTO_INITIALIZER, go = DAIKO_EVENT_AUTO_INITIALIZER;
static daiko_once_flag once;
static daiko_channel *channel;
static struct timespec past;
static int naps;
static void *any;

static void initialises(void *none) { OK(daiko_event_wait(&go)); (void)none; }
static void *runs_once(void *none) { OK(daiko_once(&once, initialises, none)); return none; }

/* The mutex is held again at any end, and freed without a wait. */
static int wait_for_condition(const struct timespec *until)
{
    int code;
    OK(daiko_mutex_lock(&own));
    code = until ? daiko_condvar_wait_until(&condvar, &own, until) : daiko_condvar_wait(&condvar, &own);
    CHECK(daiko_mutex_trylock(&own), EBUSY);
    OK(daiko_mutex_unlock(&own));
    return code;
}

static void start_once(void)
{
    static const daiko_once_flag fresh = DAIKO_ONCE_INITIALIZER;
    static int runs;
    /* The second wait of a kind is for the initializer that the first was cancelled beside. */
    if (runs++ % 2)
        return;
    once = fresh;
    OK(daiko_spawn(NULL, NULL, runs_once, NULL));
    OK(daiko_yield());
}

#define UNLOCK_MUTEX OK(daiko_mutex_unlock(&held)); OK(daiko_yield()); OK(daiko_mutex_lock(&held))
#define UNLOCK OK(daiko_rwlock_unlock(&lock)); OK(daiko_yield()); OK(daiko_rwlock_write(&lock))
#define CASES(X) \
    X(mutex_lock, , HOLDS(daiko_mutex_lock(&held), daiko_mutex_unlock(&held)), UNLOCK_MUTEX) \
    X(mutex_lock_until, , HOLDS(daiko_mutex_lock_until(&held, &far), daiko_mutex_unlock(&held)), \
      UNLOCK_MUTEX) \
    X(condvar_wait, , code = wait_for_condition(NULL), OK(daiko_condvar_notify_one(&condvar))) \
    X(condvar_wait_until, , code = wait_for_condition(&far), OK(daiko_condvar_notify_all(&condvar))) \
    X(rwlock_read, , HOLDS(daiko_rwlock_read(&lock), daiko_rwlock_unlock(&lock)), UNLOCK) \
    X(rwlock_read_until, , HOLDS(daiko_rwlock_read_until(&lock, &far), daiko_rwlock_unlock(&lock)), \
      UNLOCK) \
    X(rwlock_write, , HOLDS(daiko_rwlock_write(&lock), daiko_rwlock_unlock(&lock)), UNLOCK) \
    X(rwlock_write_until, , HOLDS(daiko_rwlock_write_until(&lock, &far), \
      daiko_rwlock_unlock(&lock)), UNLOCK) \
    X(semaphore_acquire, , code = daiko_semaphore_acquire(&semaphore, 2), \
      OK(daiko_semaphore_release(&semaphore, 2))) \
    X(semaphore_acquire_until, , code = daiko_semaphore_acquire_until(&semaphore, 1, &far), \
      OK(daiko_semaphore_release(&semaphore, 1))) \
    X(barrier_wait, , code = daiko_barrier_wait(&barrier, NULL), \
      OK(daiko_barrier_wait(&barrier, NULL))) \
    X(barrier_wait_until, , code = daiko_barrier_wait_until(&barrier, NULL, &far), \
      OK(daiko_barrier_wait(&barrier, NULL))) \
    X(event_wait, , code = daiko_event_wait(&event), OK(daiko_event_set(&event))) \
    X(event_wait_until, , code = daiko_event_wait_until(&event, &far), OK(daiko_event_set(&event))) \
    X(sleep_until, , if (naps++ % 2) OK(daiko_event_wait(&event)); \
      code = daiko_sleep_until(naps % 2 ? &far : &past), OK(daiko_event_set(&event))) \
    X(once, start_once(), code = daiko_once(&once, initialises, NULL), OK(daiko_event_set(&go))) \
    X(channel_send, , code = daiko_channel_send(channel, &any), OK(daiko_channel_recv(channel, &any))) \
    X(channel_send_until, , code = daiko_channel_send_until(channel, &any, &far), \
      OK(daiko_channel_recv(channel, &any))) \
    X(channel_recv, , code = daiko_channel_recv(channel, &any), OK(daiko_channel_send(channel, &any))) \
    X(channel_recv_until, , code = daiko_channel_recv_until(channel, &any, &far), \
      OK(daiko_channel_send(channel, &any)))

CASES(X)
#define NAMED(name, before, wait, wake) CASE(name)
static const struct wait_case cases[] = { CASES(NAMED) };

static void *run(void *none)
{
    OK(daiko_mutex_init(&held));
    OK(daiko_mutex_lock(&held));
    OK(daiko_rwlock_write(&lock));
    OK(daiko_barrier_init(&barrier, 2));
    OK(daiko_channel_new(&channel, 0));
    run_cases(cases, sizeof cases / sizeof *cases);
    OK(daiko_channel_free(channel));
    return none;
}

int main(void)
{
    in_runtime(1, run);
    return 0;
}
