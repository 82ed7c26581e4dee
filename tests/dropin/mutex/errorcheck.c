// An error-checking mutex refuses a second lock by its owner, and an unlock by any other thread.
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

static void *other(UNUSED void *argument) {
    EQUAL(pthread_mutex_unlock(&mutex), EPERM);
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
    return NULL;
}

static void *next_owner(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_lock(&mutex), EDEADLK);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

int main(void) {
    EQUAL(pthread_mutex_unlock(&mutex), EPERM);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(pthread_mutex_lock(&mutex), EDEADLK);
    EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    EQUAL(pthread_mutex_timedlock(&mutex, &soon), EDEADLK);
    join(start(other, NULL));
    pthread_t waiting = start(next_owner, NULL);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    join(waiting);
    EQUAL(pthread_mutex_unlock(&mutex), EPERM);
    EQUAL(pthread_mutex_destroy(&mutex), 0);
    return 0;
}
