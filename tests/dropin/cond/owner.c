// A wait with an error-checking mutex restores its owner; one without the mutex returns EPERM.
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ready;

static void *run(UNUSED void *argument) {
    EQUAL(pthread_cond_wait(&cond, &mutex), EPERM);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    while (!ready) EQUAL(pthread_cond_wait(&cond, &mutex), 0);
    EQUAL(pthread_mutex_lock(&mutex), EDEADLK);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), EPERM);
    return NULL;
}

int main(void) {
    pthread_t thread = start(run, NULL);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    ready = 1;
    EQUAL(pthread_cond_signal(&cond), 0);
    EQUAL(pthread_mutex_lock(&mutex), EDEADLK);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    join(thread);
    return 0;
}
