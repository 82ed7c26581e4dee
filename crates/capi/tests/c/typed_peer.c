/* Sums up the records of a program in Rust, which names the segment, and sends it the sum. */
#include "check.h"

struct trade {
    uint64_t id, price;
    uint32_t amount, unused;
};

int main(int count, char **arguments)
{
    struct trade trade, sum = { 0, 0, 0, 0 };
    daiko_segment *segment;
    daiko_shared_channel *trades, *sums;
    daiko_shared_sender *sender;
    daiko_shared_receiver *receiver;
    int code;
    CHECK(count, 2);
    OK(daiko_segment_open(&segment, arguments[1], DAIKO_OPEN, 0));
    OK(daiko_shared_channel_open(&trades, segment, "trades", DAIKO_OPEN, sizeof trade, 0, 0));
    OK(daiko_shared_channel_open(&sums, segment, "sums", DAIKO_CREATE, sizeof sum, 1, 1));
    OK(daiko_shared_sender_connect(&sender, sums));
    OK(daiko_shared_receiver_connect(&receiver, trades));
    while ((code = daiko_shared_receiver_recv(receiver, &trade, NULL)) == 0) {
        sum.id += trade.id;
        sum.price += trade.price;
        sum.amount += trade.amount;
    }
    CHECK(code, EPIPE);
    OK(daiko_shared_sender_send(sender, &sum, NULL));
    return 0;
}
