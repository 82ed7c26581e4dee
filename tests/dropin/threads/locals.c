// errno, __thread variables, keys and memory of malloc of 1,000 threads stay theirs over yields,
// waits and sleeps.
#include "../check.h"
#include <sched.h>

enum { THREADS = 1000, ROUNDS = 20 };
static __thread long local = -1;
static __thread char page[3000];
static pthread_key_t key;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;

static void suspend(int round) {
    if (round % 4 == 0) sched_yield();
    if (round % 4 == 1) pthread_barrier_wait(&all);
    if (round % 4 == 2) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    if (round % 20 == 3) pause_ms(1);
}

static void *run(void *argument) {
    long self = (long)argument;
    EQUAL(local, -1);
    EQUAL(page[2999], 0);
    local = self;
    page[2999] = (char)self;
    EQUAL(pthread_setspecific(key, argument), 0);
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = 16 + (self * 37 + round * 11) % 2000;
        unsigned char *memory = malloc(size);
        CHECK(memory);
        memset(memory, (int)self, size);
        errno = (int)self;
        suspend(round);
        if (round % 20 != 3) EQUAL(errno, self);
        for (size_t i = 0; i < size; i++) EQUAL(memory[i], (unsigned char)self);
        free(memory);
        EQUAL(local, self);
        EQUAL(page[2999], (char)self);
        EQUAL(pthread_getspecific(key), self);
    }
    return &local;
}

int main(void) {
    static pthread_t threads[THREADS];
    EQUAL(pthread_key_create(&key, NULL), 0);
    EQUAL(pthread_barrier_init(&all, NULL, THREADS), 0);
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < THREADS; i++) CHECK(join(threads[i]) != &local);
    EQUAL(local, -1);
    return 0;
}
