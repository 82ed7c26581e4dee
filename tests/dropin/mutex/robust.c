// After the end of its owner, the lock of a robust mutex returns EOWNERDEAD, also to a thread that
// already waits, and ENOTRECOVERABLE after an unlock without pthread_mutex_consistent.
#include "../check.h"

enum { CHAIN = 5 };
static pthread_mutex_t mutex;
static int deaths;

static void *end_as_owner(UNUSED void *argument) {
    int result = pthread_mutex_lock(&mutex);
    if (result == EOWNERDEAD) {
        deaths++;
        EQUAL(pthread_mutex_consistent(&mutex), 0);
    } else {
        EQUAL(result, 0);
    }
    return NULL;
}

int main(void) {
    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), 0);
    EQUAL(pthread_mutex_init(&mutex, &attributes), 0);
    EQUAL(pthread_mutex_consistent(&mutex), EINVAL);

    // All wait until the first is let in; each then ends as the owner.
    pthread_t threads[CHAIN];
    EQUAL(pthread_mutex_lock(&mutex), 0);
    for (int i = 0; i < CHAIN; i++) threads[i] = start(end_as_owner, NULL);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < CHAIN; i++) join(threads[i]);
    EQUAL(deaths, CHAIN - 1);
    EQUAL(pthread_mutex_lock(&mutex), EOWNERDEAD);
    EQUAL(pthread_mutex_consistent(&mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);

    join(start(end_as_owner, NULL));
    EQUAL(pthread_mutex_trylock(&mutex), EOWNERDEAD);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
