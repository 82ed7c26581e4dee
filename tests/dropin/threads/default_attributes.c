// A thread without attributes has those of pthread_setattr_default_np; attributes of its own have
// none of them.
#include "../check.h"
#include <signal.h>

enum { ROUNDS = 3, STACK = 1 << 20, GUARD = 3 * 4096 };

struct seen {
    size_t stack, guard;
    int blocks;
};

static void *look(void *argument) {
    struct seen *seen = argument;
    pthread_attr_t own;
    EQUAL(pthread_getattr_np(pthread_self(), &own), 0);
    EQUAL(pthread_attr_getstacksize(&own, &seen->stack), 0);
    EQUAL(pthread_attr_getguardsize(&own, &seen->guard), 0);
    EQUAL(pthread_attr_destroy(&own), 0);
    sigset_t mask;
    EQUAL(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    seen->blocks = sigismember(&mask, SIGUSR1);
    return NULL;
}

static struct seen seen_with(pthread_attr_t *attributes) {
    struct seen seen;
    pthread_t thread;
    EQUAL(pthread_create(&thread, attributes, look, &seen), 0);
    join(thread);
    return seen;
}

int main(void) {
    pthread_attr_t first, changed, plain;
    EQUAL(pthread_getattr_default_np(&first), 0);
    EQUAL(pthread_attr_init(&changed), 0);
    EQUAL(pthread_attr_init(&plain), 0);
    EQUAL(pthread_attr_setguardsize(&changed, GUARD), 0);
    EQUAL(pthread_attr_setstacksize(&changed, STACK), 0);
    struct seen before = seen_with(NULL);
    CHECK(before.guard != GUARD && !before.blocks);
    EQUAL(pthread_setattr_default_np(&changed), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct seen seen = seen_with(NULL);
        EQUAL(seen.guard, GUARD);
        CHECK(seen.stack >= STACK - GUARD && seen.stack <= STACK + GUARD && !seen.blocks);
    }
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    EQUAL(pthread_attr_setsigmask_np(&changed, &mask), 0);
    EQUAL(pthread_setattr_default_np(&changed), 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(seen_with(NULL).blocks);
        CHECK(!seen_with(&plain).blocks);
    }
    EQUAL(pthread_setattr_default_np(&first), 0);
    struct seen after = seen_with(NULL);
    EQUAL(after.guard, before.guard);
    EQUAL(after.stack, before.stack);
    CHECK(!after.blocks);
    return 0;
}
