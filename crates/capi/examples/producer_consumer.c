/* A producer and consumers with a bounded channel: each number is received once.
 *
 *     cc producer_consumer.c $(pkg-config --cflags --libs daiko) -o producer_consumer */
#include <daiko.h>
#include <stdio.h>

enum { NUMBERS = 10000, CONSUMERS = 4 };

static daiko_channel *channel;

static void *consume(void *sum)
{
    void *message;
    while (daiko_channel_recv(channel, &message) == 0)
        *(uintptr_t *)sum += (uintptr_t)message;
    return sum;
}

static void *produce(void *none)
{
    daiko_fiber *consumers[CONSUMERS];
    uintptr_t sums[CONSUMERS] = { 0 }, sum = 0, i;
    for (i = 0; i < CONSUMERS; i++)
        if (daiko_spawn(&consumers[i], NULL, consume, &sums[i]) != 0)
            return none;
    for (i = 1; i <= NUMBERS; i++)
        daiko_channel_send(channel, (void *)i);
    /* Messages in the channel are still received. */
    daiko_channel_close(channel);
    for (i = 0; i < CONSUMERS; i++) {
        daiko_join(consumers[i], NULL);
        sum += sums[i];
    }
    return (void *)sum;
}

int main(void)
{
    void *sum = NULL;
    int code = daiko_channel_new(&channel, 16);
    if (code == 0)
        code = daiko_runtime_run(NULL, produce, NULL, &sum);
    if (code != 0) {
        fprintf(stderr, "producer_consumer: %s\n", daiko_strerror(code));
        return 1;
    }
    printf("the sum is %lu\n", (unsigned long)(uintptr_t)sum);
    daiko_channel_free(channel);
    return (uintptr_t)sum != (uintptr_t)NUMBERS * (NUMBERS + 1) / 2;
}
