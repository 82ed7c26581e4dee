// sem_wait and sem_trywait take, sem_post and sem_getvalue tell, and overflow and bad values fail.
#include "../check.h"
#include <limits.h>
#include <semaphore.h>

static sem_t semaphore;

static int value(void) {
    int value;
    MUST(sem_getvalue(&semaphore, &value));
    return value;
}

static void *post(UNUSED void *argument) {
    MUST(sem_post(&semaphore));
    return NULL;
}

int main(void) {
    EQUAL(sem_init(&semaphore, 0, (unsigned)SEM_VALUE_MAX + 1), -1);
    EQUAL(errno, EINVAL);
    memset(&semaphore, 0x55, sizeof semaphore);
    MUST(sem_init(&semaphore, 0, 2));
    MUST(sem_wait(&semaphore));
    MUST(sem_trywait(&semaphore));
    EQUAL(sem_trywait(&semaphore), -1);
    EQUAL(errno, EAGAIN);
    pthread_t thread = start(post, NULL);
    MUST(sem_wait(&semaphore));
    join(thread);
    EQUAL(value(), 0);
    join(start(post, NULL));
    join(start(post, NULL));
    EQUAL(value(), 2);
    MUST(sem_destroy(&semaphore));
    MUST(sem_init(&semaphore, 0, SEM_VALUE_MAX));
    EQUAL(sem_post(&semaphore), -1);
    EQUAL(errno, EOVERFLOW);
    EQUAL(value(), SEM_VALUE_MAX);
    return 0;
}
