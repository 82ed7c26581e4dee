// A new thread has the first values of __thread variables, although the last thread changed them.
#include "../check.h"

static __thread int initialised = 42;
static __thread long zero;
static __thread char large[5000];
static __thread _Alignas(64) char aligned = 'a';
static __thread int *own = NULL;

static void *spoil(UNUSED void *argument) {
    initialised = -1;
    zero = -1;
    memset(large, 0x55, sizeof large);
    aligned = 'b';
    own = &initialised;
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    EQUAL(initialised, 42);
    EQUAL(zero, 0);
    for (size_t i = 0; i < sizeof large; i++) EQUAL(large[i], 0);
    EQUAL(aligned, 'a');
    EQUAL((unsigned long)&aligned % 64, 0);
    CHECK(own == NULL);
    return NULL;
}

int main(void) {
    initialised = 1;
    spoil_and_inspect(spoil, inspect);
    EQUAL(initialised, 1);
    return 0;
}
