// A recursive mutex counts the locks of its owner, and other threads get it after the last unlock.
#include "../check.h"

enum { DEPTH = 100 };
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int depth;

static void *other(UNUSED void *argument) {
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
    EQUAL(pthread_mutex_unlock(&mutex), EPERM);
    return NULL;
}

static void *waiter(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(depth, 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

int main(void) {
    for (depth = 0; depth < DEPTH; depth++) {
        EQUAL(depth % 2 ? pthread_mutex_trylock(&mutex) : pthread_mutex_lock(&mutex), 0);
    }
    join(start(other, NULL));
    pthread_t waiting = start(waiter, NULL);
    while (depth > 0) {
        if (depth == 1) join(start(other, NULL));
        depth--;
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    join(waiting);
    EQUAL(pthread_mutex_unlock(&mutex), EPERM);
    EQUAL(pthread_mutex_destroy(&mutex), 0);

    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE), 0);
    EQUAL(pthread_mutex_init(&mutex, &attributes), 0);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    join(start(other, NULL));
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
