// Memory that one thread allocates and another one frees, resizes and checks is never shared by two
// owners, while all of them suspend at random.
#include "../check.h"
#include <malloc.h>
#include <sched.h>

enum { THREADS = 16, ROUNDS = 2000, PLACES = 64 };
struct block {
    size_t size;
    unsigned char fill, bytes[];
};
static struct block *places[PLACES];

static void check_and_free(struct block *block) {
    if (block == NULL) return;
    for (size_t i = 0; i < block->size; i++) EQUAL(block->bytes[i], block->fill);
    free(block);
}

static void *run(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = (size_t)rand_r(&seed) % (round % 100 ? 500 : 200000);
        struct block *block = malloc(sizeof *block + size / 2);
        CHECK(block);
        block = realloc(block, sizeof *block + size);
        CHECK(block);
        block->size = size;
        block->fill = (unsigned char)rand_r(&seed);
        memset(block->bytes, block->fill, size);
        if (round % 64 == 0) sched_yield();
        struct block **place = &places[rand_r(&seed) % PLACES];
        check_and_free(__atomic_exchange_n(place, block, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    for (int i = 0; i < PLACES; i++) check_and_free(places[i]);
    malloc_trim(0);
    return 0;
}
