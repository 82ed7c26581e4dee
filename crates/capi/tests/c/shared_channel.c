/* Channels between processes, whose peers are killed while this one waits for them. */
#include "peer.h"

struct trade {
    uint64_t id, price;
    uint32_t amount;
};

static struct peer feeder, drainer;
static daiko_shared_sender *sender;
static daiko_shared_receiver *receiver;

static daiko_shared_channel *opened(const char *name, daiko_segment *segment)
{
    daiko_shared_channel *channel;
    OK(daiko_shared_channel_open(&channel, segment, name, DAIKO_OPEN_OR_CREATE, sizeof(struct trade), 2, 1));
    return channel;
}

static void feeds(daiko_segment *segment)
{
    struct trade trade = { 0, 5, 7 };
    OK(daiko_shared_sender_connect(&sender, opened("up", segment)));
    for (; trade.id < 2; trade.id++)
        OK(daiko_shared_sender_send(sender, &trade, NULL));
}

static void drains(daiko_segment *segment)
{
    struct trade trade;
    OK(daiko_shared_receiver_connect(&receiver, opened("down", segment)));
    OK(daiko_shared_receiver_recv(receiver, &trade, NULL));
    CHECK(trade.id, 9);
}

static void *receives(void *code)
{
    struct trade trade;
    *(int *)code = daiko_shared_receiver_recv(receiver, &trade, NULL);
    return code;
}

static void *sends(void *code)
{
    struct trade trade = { 9, 0, 0 };
    *(int *)code = daiko_shared_sender_send(sender, &trade, NULL);
    return code;
}

/* Kills the peer that a fiber waits for, which learns of it. */
static void kill_in_wait(struct peer *peer, daiko_function wait)
{
    daiko_fiber *waiter;
    int code = -2, turns;
    OK(daiko_spawn(&waiter, NULL, wait, &code));
    for (turns = 0; turns < 3; turns++)
        OK(daiko_yield());
    CHECK(code, -2);
    CHECK((wait(&turns), turns), EBUSY);
    kill_peer(peer);
    OK(daiko_join(waiter, NULL));
    CHECK(code, EPIPE);
}

static void *run(void *none)
{
    struct timespec past = { 0, 0 };
    struct trade trade = { 9, 0, 0 };
    daiko_segment *segment;
    daiko_shared_channel *up, *down, *other;
    uint64_t i;
    OK(daiko_segment_open(&segment, path, DAIKO_CREATE, 1 << 20));
    up = opened("up", segment);
    down = opened("down", segment);
    for (i = DAIKO_OPEN; i <= DAIKO_OPEN_OR_CREATE; i += 2)
        CHECK(daiko_shared_channel_open(&other, segment, "up", i, sizeof trade - 1, 2, 1), EINVAL);
    CHECK(daiko_shared_channel_open(&other, segment, "up", DAIKO_CREATE, sizeof trade, 2, 1), EEXIST);
    CHECK(daiko_shared_channel_open(&other, segment, "no", DAIKO_CREATE, SIZE_MAX, 2, 1), EINVAL);
    CHECK(daiko_shared_channel_open(&other, segment, "no", DAIKO_CREATE, sizeof trade, 2, 0), EINVAL);

    OK(daiko_shared_receiver_connect(&receiver, up));
    CHECK(daiko_shared_receiver_recv(receiver, NULL, NULL), EINVAL);
    CHECK(daiko_shared_receiver_recv(receiver, &trade, &past), ETIMEDOUT);
    CHECK(daiko_shared_receiver_tryrecv(receiver, &trade), EAGAIN);
    signals(feeder.start);
    awaits(feeder.done);
    CHECK(daiko_shared_sender_connect(&sender, up), EBUSY);
    for (i = 0; i < 2; i++) {
        OK(daiko_shared_receiver_recv(receiver, &trade, NULL));
        CHECK(trade.id == i && trade.price == 5 && trade.amount == 7, 1);
    }
    kill_in_wait(&feeder, receives);
    CHECK(daiko_shared_receiver_tryrecv(receiver, &trade), EPIPE);
    OK(daiko_shared_sender_connect(&sender, up));
    CHECK(daiko_shared_receiver_tryrecv(receiver, &trade), EAGAIN);
    OK(daiko_shared_receiver_close(receiver));
    CHECK(daiko_shared_sender_trysend(sender, &trade), EPIPE);
    OK(daiko_shared_sender_close(sender));

    OK(daiko_shared_sender_connect(&sender, down));
    CHECK(daiko_shared_sender_send(sender, NULL, NULL), EINVAL);
    trade.id = 9;
    OK(daiko_shared_sender_send(sender, &trade, NULL));
    signals(drainer.start);
    awaits(drainer.done);
    CHECK(daiko_shared_receiver_connect(&receiver, down), EBUSY);
    while (daiko_shared_sender_trysend(sender, &trade) == 0) {}
    CHECK(daiko_shared_sender_trysend(sender, &trade), EAGAIN);
    CHECK(daiko_shared_sender_send(sender, &trade, &past), ETIMEDOUT);
    kill_in_wait(&drainer, sends);
    OK(daiko_shared_receiver_connect(&receiver, down));
    OK(daiko_shared_receiver_recv(receiver, &trade, NULL));
    CHECK(trade.id, 9);

    OK(daiko_shared_channel_close(up));
    OK(daiko_shared_channel_close(down));
    OK(daiko_segment_remove(segment));
    OK(daiko_segment_detach(segment));
    OK(daiko_shared_sender_send(sender, &trade, NULL));
    OK(daiko_shared_sender_close(sender));
    OK(daiko_shared_receiver_close(receiver));
    return none;
}

int main(void)
{
    snprintf(path, sizeof path, "daiko-test-%d-channel", (int)getpid());
    /* Before the first call of Daiko: a fork has no workers. */
    begin(&feeder, feeds);
    begin(&drainer, drains);
    in_runtime(1, run);
    return 0;
}
