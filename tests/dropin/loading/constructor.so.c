// A library with a constructor that creates a thread, joins it, and suspends for a while.
#include "../check.h"

static __thread int local = 5;
int constructed;

static void *run(UNUSED void *argument) {
    EQUAL(local, 5);
    pause_ms(2);
    return &constructed;
}

__attribute__((constructor)) static void construct(void) {
    local = 6;
    CHECK(join(start(run, NULL)) == &constructed);
    pause_ms(5);
    constructed++;
}
