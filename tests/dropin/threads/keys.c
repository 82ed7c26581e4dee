// Destructors of keys run at the end of a thread, up to PTHREAD_DESTRUCTOR_ITERATIONS times, may
// suspend, and see a value of NULL; deleted keys have none, and a new key has no value.
#include "../check.h"
#include <limits.h>

static pthread_key_t once, stubborn, sleeper, deleted;
static int ended_once, ended_stubborn, ended_sleeper;

static void end_once(void *value) {
    EQUAL(value, 1);
    CHECK(pthread_getspecific(once) == NULL);
    ended_once++;
}

static void end_stubborn(void *value) {
    ended_stubborn++;
    EQUAL(pthread_setspecific(stubborn, value), 0);
}

static void end_sleeper(UNUSED void *value) {
    pause_ms(2);
    ended_sleeper++;
}

static void end_deleted(UNUSED void *value) { FAIL("the destructor of a deleted key ran"); }

static void *run(void *argument) {
    pthread_key_t keys[] = {once, stubborn, sleeper, deleted};
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_getspecific(keys[i]) == NULL);
        EQUAL(pthread_setspecific(keys[i], (void *)1), 0);
    }
    EQUAL(pthread_key_delete(deleted), 0);
    EQUAL(pthread_setspecific(deleted, (void *)1), EINVAL);
    EQUAL(pthread_key_create(&deleted, end_deleted), 0);
    CHECK(pthread_getspecific(deleted) == NULL);
    if (argument) pthread_exit(NULL);
    return NULL;
}

int main(void) {
    EQUAL(pthread_key_create(&once, end_once), 0);
    EQUAL(pthread_key_create(&stubborn, end_stubborn), 0);
    EQUAL(pthread_key_create(&sleeper, end_sleeper), 0);
    EQUAL(pthread_key_create(&deleted, end_deleted), 0);
    for (int times = 1; times <= 10; times++) {
        join(start(run, times % 2 ? &once : NULL));
        EQUAL(ended_once, times);
        EQUAL(ended_stubborn, times * PTHREAD_DESTRUCTOR_ITERATIONS);
        EQUAL(ended_sleeper, times);
    }
    // All keys that there are, beyond the 32 that a thread has room for in its own block.
    static pthread_key_t more[PTHREAD_KEYS_MAX];
    int made = 0;
    while (made < PTHREAD_KEYS_MAX && pthread_key_create(&more[made], NULL) == 0) made++;
    CHECK(made > 900);
    for (int i = 0; i < made; i++) EQUAL(pthread_setspecific(more[i], &more[i]), 0);
    for (int i = 0; i < made; i++) CHECK(pthread_getspecific(more[i]) == &more[i]);
    return 0;
}
