// A library whose constructor starts a thread, and waits until it has begun.
#include <pthread.h>
#include <semaphore.h>

static pthread_t thread;
static sem_t begun, ends;
static int seen;

static void *run(void *argument) {
    seen = 5;
    sem_post(&begun);
    sem_wait(&ends);
    return argument;
}

__attribute__((constructor)) static void begin(void) {
    sem_init(&begun, 0, 0);
    sem_init(&ends, 0, 0);
    pthread_create(&thread, NULL, run, NULL);
    sem_wait(&begun);
}

__attribute__((destructor)) static void end(void) {
    sem_post(&ends);
    pthread_join(thread, NULL);
}

int value(void) { return seen; }
