// A process-shared rwlock keeps the writers of two processes apart from all readers.
#include "../check.h"

enum { THREADS = 3, ROUNDS = 300 };
struct shared {
    pthread_rwlock_t lock;
    long one, two;
};
static struct shared *shared;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_rwlock_rdlock(&shared->lock), 0);
        EQUAL(shared->one, shared->two);
        EQUAL(pthread_rwlock_unlock(&shared->lock), 0);
        EQUAL(pthread_rwlock_wrlock(&shared->lock), 0);
        shared->one++;
        shared->two++;
        EQUAL(pthread_rwlock_unlock(&shared->lock), 0);
    }
    return NULL;
}

int main(void) {
    shared = shared_page();
    pthread_rwlockattr_t attributes;
    EQUAL(pthread_rwlockattr_init(&attributes), 0);
    EQUAL(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EQUAL(pthread_rwlock_init(&shared->lock, &attributes), 0);
    pid_t child = MUST(fork());
    run_threads(THREADS, run);
    if (child == 0) return 0;
    EQUAL(status_of(child), 0);
    EQUAL(shared->one, 2 * THREADS * ROUNDS);
    return 0;
}
