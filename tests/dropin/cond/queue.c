// A bounded queue with two condition variables: each value of 4 producers arrives once at one of 4
// consumers, half of which wait with deadlines.
#include "../check.h"

enum { SIDE = 4, VALUES = 2000, ROOM = 3 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int ring[ROOM], used, head;
static unsigned char seen[SIDE * VALUES];

static void *produce(void *argument) {
    for (int i = 0; i < VALUES; i++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        while (used == ROOM) EQUAL(pthread_cond_wait(&not_full, &mutex), 0);
        ring[(head + used++) % ROOM] = (int)(long)argument * VALUES + i;
        EQUAL(pthread_cond_signal(&not_empty), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static void wait_for_value(int timed) {
    if (!timed) {
        EQUAL(pthread_cond_wait(&not_empty, &mutex), 0);
        return;
    }
    struct timespec soon = in_ms(CLOCK_REALTIME, 1);
    int result = pthread_cond_timedwait(&not_empty, &mutex, &soon);
    CHECK(result == 0 || result == ETIMEDOUT);
}

static void *consume(void *argument) {
    for (int i = 0; i < VALUES; i++) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        while (used == 0) wait_for_value((long)argument % 2);
        seen[ring[head]]++;
        head = (head + 1) % ROOM, used--;
        EQUAL(pthread_cond_signal(&not_full), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2 * SIDE];
    for (long i = 0; i < SIDE; i++) {
        threads[i] = start(produce, (void *)i);
        threads[SIDE + i] = start(consume, (void *)i);
    }
    for (int i = 0; i < 2 * SIDE; i++) join(threads[i]);
    for (int i = 0; i < SIDE * VALUES; i++) EQUAL(seen[i], 1);
    return 0;
}
