// A process-shared condition variable and mutex hand a token between threads of two processes.
#include "../check.h"

enum { ROUNDS = 500 };
struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
};
static struct shared *shared;

static void *run(void *argument) {
    int self = (int)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&shared->mutex), 0);
        while (shared->turn != self) EQUAL(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
        shared->turn = (self + 1) % 4;
        EQUAL(pthread_cond_broadcast(&shared->cond), 0);
        EQUAL(pthread_mutex_unlock(&shared->mutex), 0);
    }
    return NULL;
}

int main(void) {
    shared = shared_page();
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    EQUAL(pthread_mutexattr_init(&mutex), 0);
    EQUAL(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED), 0);
    EQUAL(pthread_mutex_init(&shared->mutex, &mutex), 0);
    EQUAL(pthread_condattr_init(&cond), 0);
    EQUAL(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED), 0);
    EQUAL(pthread_cond_init(&shared->cond, &cond), 0);
    pid_t child = MUST(fork());
    long first = child == 0 ? 1 : 0;
    pthread_t threads[] = {start(run, (void *)first), start(run, (void *)(first + 2))};
    join(threads[0]);
    join(threads[1]);
    if (child == 0) return 0;
    EQUAL(status_of(child), 0);
    EQUAL(shared->turn, 0);
    return 0;
}
