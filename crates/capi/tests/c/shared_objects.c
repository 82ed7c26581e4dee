/* Objects of a segment between processes, one of which is killed while it has them in use. */
#include "peer.h"

static struct timespec past;
static struct peer initialiser, holder, member, taker;
static daiko_shared_once *once;
static daiko_shared_mutex *mutex;
static daiko_shared_condvar *condvar;
static daiko_shared_event *event;
static daiko_shared_barrier *barrier;
static daiko_shared_party *party;
static daiko_shared_mpmc *channel;
static daiko_shared_mpmc_sender *sender;
static daiko_shared_mpmc_receiver *receiver;

static void open_all(daiko_segment *segment)
{
    OK(daiko_shared_once_open(&once, segment, "once", DAIKO_OPEN_OR_CREATE));
    OK(daiko_shared_mutex_open(&mutex, segment, "mutex", DAIKO_OPEN_OR_CREATE));
    OK(daiko_shared_condvar_open(&condvar, segment, "condvar", DAIKO_OPEN_OR_CREATE));
    OK(daiko_shared_event_open(&event, segment, "event", DAIKO_OPEN_OR_CREATE));
    OK(daiko_shared_barrier_open(&barrier, segment, "barrier", DAIKO_OPEN_OR_CREATE, 2));
    OK(daiko_shared_mpmc_open(&channel, segment, "channel", DAIKO_OPEN_OR_CREATE, 3, 2, 2, 2));
}

static void hangs(void *none, int is_again)
{
    CHECK(none == NULL && !is_again, 1);
    signals(initialiser.done);
    for (;;)
        pause();
}

static void initialises(daiko_segment *segment)
{
    open_all(segment);
    daiko_shared_once_call(once, hangs, NULL, NULL);
}

/* Waits for the event by the condition variable; later takes the mutex, and keeps it. */
static void holds(daiko_segment *segment)
{
    open_all(segment);
    OK(daiko_shared_mutex_lock(mutex, NULL));
    signals(holder.done);
    while (daiko_shared_event_wait(event, &past) == ETIMEDOUT)
        OK(daiko_shared_condvar_wait(condvar, mutex, NULL));
    OK(daiko_shared_mutex_unlock(mutex));
    signals(holder.done);
    awaits(holder.start);
    OK(daiko_shared_mutex_lock(mutex, NULL));
}

static void arrives_once(daiko_segment *segment)
{
    open_all(segment);
    OK(daiko_shared_party_connect(&party, barrier));
    OK(daiko_shared_party_wait(party, NULL, NULL));
}

static void takes_one(daiko_segment *segment)
{
    char record[3];
    open_all(segment);
    OK(daiko_shared_mpmc_receiver_connect(&receiver, channel));
    OK(daiko_shared_mpmc_receiver_recv(receiver, record, NULL));
    OK(strcmp(record, "ab"));
}

/* Kills the peer while a fiber waits for it, which gets this code. */
static void kill_in_wait(struct peer *peer, daiko_function wait, int expected)
{
    daiko_fiber *waiter;
    int code = -2, turns;
    OK(daiko_spawn(&waiter, NULL, wait, &code));
    for (turns = 0; turns < 3; turns++)
        OK(daiko_yield());
    CHECK(code, -2);
    if (peer == &holder) {
        signals(peer->start);
        awaits(peer->done);
    }
    kill_peer(peer);
    OK(daiko_join(waiter, NULL));
    CHECK(code, expected);
}

static int initialised;

static void notes(void *none, int is_again)
{
    CHECK(none == NULL && is_again, 1);
    initialised++;
}

static void *calls(void *code)
{
    *(int *)code = daiko_shared_once_call(once, notes, NULL, NULL);
    return code;
}

static void of_once(void)
{
    signals(initialiser.start);
    awaits(initialiser.done);
    CHECK(daiko_shared_once_call(once, notes, NULL, &past), ETIMEDOUT);
    kill_in_wait(&initialiser, calls, 0);
    OK(daiko_shared_once_call(once, notes, NULL, &past));
    CHECK(initialised, 1);
}

/* The wait ends as the holder of the mutex dies. */
static void *waits(void *code)
{
    OK(daiko_shared_mutex_lock(mutex, NULL));
    *(int *)code = daiko_shared_condvar_wait(condvar, mutex, NULL);
    return code;
}

static void of_condvar(void)
{
    signals(holder.start);
    awaits(holder.done);
    OK(daiko_shared_mutex_lock(mutex, NULL));
    OK(daiko_shared_event_set(event));
    OK(daiko_shared_condvar_notify_all(condvar));
    OK(daiko_shared_mutex_unlock(mutex));
    awaits(holder.done);
    kill_in_wait(&holder, waits, EOWNERDEAD);
    OK(daiko_shared_mutex_consistent(mutex));
    CHECK(daiko_shared_condvar_wait(condvar, mutex, &past), ETIMEDOUT);
    OK(daiko_shared_mutex_unlock(mutex));
}

static void *arrives(void *code)
{
    *(int *)code = daiko_shared_party_wait(party, NULL, NULL);
    return code;
}

static void of_barrier(void)
{
    daiko_shared_party *other, *third;
    int leaders = 0;
    OK(daiko_shared_party_connect(&party, barrier));
    CHECK(daiko_shared_party_wait(party, &past, NULL), ETIMEDOUT);
    signals(member.start);
    OK(daiko_shared_party_wait(party, NULL, NULL));
    awaits(member.done);
    kill_in_wait(&member, arrives, EOWNERDEAD);
    OK(daiko_shared_party_connect(&other, barrier));
    CHECK(daiko_shared_party_connect(&third, barrier), EBUSY);
    OK(daiko_shared_party_wait(other, NULL, &leaders));
    CHECK(leaders, 1);
    OK(daiko_shared_party_wait(party, NULL, &leaders));
    CHECK(leaders, 0);
    OK(daiko_shared_party_close(other));
    CHECK(daiko_shared_party_wait(party, NULL, NULL), EPIPE);
    OK(daiko_shared_party_close(party));
}

static void *sends(void *code)
{
    *(int *)code = daiko_shared_mpmc_sender_send(sender, "ef", NULL);
    return code;
}

static void of_channel(daiko_segment *segment)
{
    daiko_shared_mpmc *other;
    char record[3];
    CHECK(daiko_shared_mpmc_open(&other, segment, "channel", DAIKO_OPEN, 4, 2, 2, 2), EINVAL);
    OK(daiko_shared_mpmc_sender_connect(&sender, channel));
    OK(daiko_shared_mpmc_sender_send(sender, "ab", NULL));
    signals(taker.start);
    awaits(taker.done);
    while (daiko_shared_mpmc_sender_trysend(sender, "cd") == 0) {}
    CHECK(daiko_shared_mpmc_sender_trysend(sender, "cd"), EAGAIN);
    CHECK(daiko_shared_mpmc_sender_send(sender, "cd", &past), ETIMEDOUT);
    kill_in_wait(&taker, sends, EPIPE);
    OK(daiko_shared_mpmc_receiver_connect(&receiver, channel));
    OK(daiko_shared_mpmc_receiver_recv(receiver, record, NULL));
    OK(strcmp(record, "cd"));
    while (daiko_shared_mpmc_receiver_tryrecv(receiver, record) == 0) {}
    CHECK(daiko_shared_mpmc_receiver_tryrecv(receiver, record), EAGAIN);
    CHECK(daiko_shared_mpmc_receiver_recv(receiver, record, &past), ETIMEDOUT);
    OK(daiko_shared_mpmc_sender_close(sender));
    CHECK(daiko_shared_mpmc_receiver_recv(receiver, record, NULL), EPIPE);
    OK(daiko_shared_mpmc_receiver_close(receiver));
}

static void *run(void *none)
{
    daiko_segment *segment;
    OK(daiko_segment_open(&segment, path, DAIKO_CREATE, 1 << 20));
    open_all(segment);
    of_once();
    of_condvar();
    of_barrier();
    of_channel(segment);
    OK(daiko_shared_once_close(once));
    OK(daiko_shared_condvar_close(condvar));
    OK(daiko_shared_barrier_close(barrier));
    OK(daiko_shared_mpmc_close(channel));
    OK(daiko_segment_remove(segment));
    OK(daiko_segment_detach(segment));
    return none;
}

int main(void)
{
    snprintf(path, sizeof path, "daiko-test-%d-objects", (int)getpid());
    /* Before the first call of Daiko: a fork has no workers. */
    begin(&initialiser, initialises);
    begin(&holder, holds);
    begin(&member, arrives_once);
    begin(&taker, takes_one);
    in_runtime(1, run);
    return 0;
}
