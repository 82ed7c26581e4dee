// Cancellation ends a wait of the initial thread, and one with a mutex that has priority
// inheritance.
#define ENDS_ELSEWHERE
#include "../check.h"
#include <semaphore.h>

static pthread_mutex_t mutex;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t never, waits;
static pthread_t initial;
static int cleaned;

static void unlock(void *argument) {
    cleaned++;
    EQUAL(pthread_mutex_unlock(argument), 0);
}

static void note(UNUSED void *argument) { cleaned++; }

static void *wait_with_priority(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    pthread_cleanup_push(unlock, &mutex);
    MUST(sem_post(&waits));
    for (;;) EQUAL(pthread_cond_wait(&condition, &mutex), 0);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancel_initial(UNUSED void *argument) {
    MUST(sem_wait(&waits));
    pause_ms(20);
    EQUAL(pthread_cancel(initial), 0);
    CHECK(join(initial) == PTHREAD_CANCELED);
    EQUAL(cleaned, 2);
    exit(0);
}

int main(void) {
    MUST(sem_init(&never, 0, 0));
    MUST(sem_init(&waits, 0, 0));
    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), 0);
    EQUAL(pthread_mutex_init(&mutex, &attributes), 0);
    pthread_t thread = start(wait_with_priority, NULL);
    MUST(sem_wait(&waits));
    pause_ms(20);
    EQUAL(pthread_cancel(thread), 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    EQUAL(cleaned, 1);

    initial = pthread_self();
    start(cancel_initial, NULL);
    pthread_cleanup_push(note, NULL);
    MUST(sem_post(&waits));
    sem_wait(&never);
    pthread_cleanup_pop(0);
    return 1;
}
