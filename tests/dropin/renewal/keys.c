// A new thread has no values of keys, although the last thread set all of them.
#include "../check.h"

enum { KEYS = 200 };
static pthread_key_t keys[KEYS];

static void *spoil(UNUSED void *argument) {
    for (int i = 0; i < KEYS; i++) EQUAL(pthread_setspecific(keys[i], &keys[i]), 0);
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    for (int i = 0; i < KEYS; i++) CHECK(pthread_getspecific(keys[i]) == NULL);
    return NULL;
}

int main(void) {
    for (int i = 0; i < KEYS; i++) EQUAL(pthread_key_create(&keys[i], NULL), 0);
    spoil(NULL);
    spoil_and_inspect(spoil, inspect);
    for (int i = 0; i < KEYS; i++) CHECK(pthread_getspecific(keys[i]) == &keys[i]);
    return 0;
}
