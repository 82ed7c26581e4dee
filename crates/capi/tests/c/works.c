/* Uses two workers, names, keys, pollers, calls that block; errno survives all waits. */
#include "check.h"

enum { FIBERS = 200, ROUNDS = 50 };
static daiko_mutex mutex = DAIKO_MUTEX_INITIALIZER;
static daiko_rwlock lock = DAIKO_RWLOCK_INITIALIZER;
static daiko_barrier barrier;
static daiko_once_flag once = DAIKO_ONCE_INITIALIZER;
static uint32_t key;
static int sum, inits, destroyed, leaders, polled;
static daiko_fiber *waits_for_poll;

static void init(void *none) { (void)none; inits++; }
static void destroys(void *value)
{
    __atomic_add_fetch((int *)value, 1, __ATOMIC_SEQ_CST);
    CHECK(daiko_key_get(key) == NULL, 1);
}

static void *counts(void *argument)
{
    int i, leader = 0;
    OK(daiko_once(&once, init, NULL));
    OK(daiko_key_set(key, &destroyed));
    for (i = 0; i < ROUNDS; i++) {
        errno = i;
        OK(daiko_mutex_lock(&mutex));
        sum++;
        OK(daiko_mutex_unlock(&mutex));
        OK(daiko_rwlock_read(&lock));
        OK(daiko_yield());
        OK(daiko_rwlock_unlock(&lock));
        CHECK(errno, i);
    }
    OK(daiko_barrier_wait(&barrier, &leader));
    __atomic_add_fetch(&leaders, leader, __ATOMIC_SEQ_CST);
    CHECK(daiko_key_get(key) == &destroyed, 1);
    return argument;
}

static size_t polls(void *none)
{
    (void)none;
    CHECK(daiko_park(), EPERM);
    CHECK(daiko_mutex_lock(&mutex), EPERM);
    polled = 1;
    OK(daiko_unpark(waits_for_poll));
    return 1;
}

static void *blocks(void *none) { CHECK(daiko_self() == NULL, 1); return none; }
static void *reads_name(void *to) { OK(daiko_fiber_name(daiko_self(), to, 4)); return to; }

static void *run(void *none)
{
    daiko_fiber_attr attr = DAIKO_FIBER_ATTR_INITIALIZER;
    daiko_fiber *fibers[FIBERS];
    daiko_poller *poller;
    struct timespec past = after(-1);
    char name[4];
    void *end;
    int i;
    OK(daiko_key_create(&key, destroys));
    OK(daiko_barrier_init(&barrier, FIBERS));
    for (i = 0; i < FIBERS; i++) {
        attr.flags = (unsigned)i % 3 == 2 ? DAIKO_FIBER_ON_WORKER : (unsigned)i % 3;
        attr.worker = i % 2;
        OK(daiko_spawn(&fibers[i], &attr, counts, &fibers[i]));
    }
    for (i = 0; i < FIBERS; i++) {
        OK(daiko_join(fibers[i], &end));
        CHECK(end == &fibers[i], 1);
    }
    CHECK(sum, FIBERS * ROUNDS);
    CHECK(inits * leaders, 1);
    CHECK(destroyed, FIBERS);
    OK(daiko_key_delete(key));

    attr.name = "long name";
    OK(daiko_spawn(&fibers[0], &attr, reads_name, name));
    while (daiko_join_until(fibers[0], &end, &past) == ETIMEDOUT)
        OK(daiko_yield());
    OK(strcmp(end, "lon"));

    waits_for_poll = daiko_self();
    OK(daiko_poller_register(NULL, &poller, NULL, polls, NULL));
    while (!polled)
        OK(daiko_park());
    OK(daiko_poller_unregister(poller));
    OK(daiko_blocking(blocks, name, &end));
    CHECK(end == name, 1);
    return none;
}

int main(void)
{
    in_runtime(2, run);
    return 0;
}
