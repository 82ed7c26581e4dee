// Detached threads run to their end, detached at creation, by their creator or by themselves.
#include "../check.h"
#include <semaphore.h>

enum { EACH = 100 };
static sem_t done;

static void *run(void *argument) {
    if (argument) EQUAL(pthread_detach(pthread_self()), 0);
    MUST(sem_post(&done));
    return NULL;
}

int main(void) {
    MUST(sem_init(&done, 0, 0));
    pthread_attr_t attributes;
    EQUAL(pthread_attr_init(&attributes), 0);
    EQUAL(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED), 0);
    for (int i = 0; i < EACH; i++) {
        pthread_t thread;
        EQUAL(pthread_create(&thread, &attributes, run, NULL), 0);
        start(run, &attributes);
        EQUAL(pthread_detach(start(run, NULL)), 0);
    }
    for (int i = 0; i < 3 * EACH; i++) MUST(sem_wait(&done));
    return 0;
}
