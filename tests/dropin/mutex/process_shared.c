// A process-shared mutex excludes the threads of two processes from each other.
#include "../check.h"
#include <sched.h>

enum { THREADS = 3, ROUNDS = 500 };
struct shared {
    pthread_mutex_t mutex;
    long total;
};
static struct shared *shared;

static void *run(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_mutex_lock(&shared->mutex), 0);
        long seen = shared->total;
        if (round % 32 == 0) sched_yield();
        shared->total = seen + 1;
        EQUAL(pthread_mutex_unlock(&shared->mutex), 0);
    }
    return NULL;
}

int main(void) {
    shared = shared_page();
    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EQUAL(pthread_mutex_init(&shared->mutex, &attributes), 0);
    pid_t child = MUST(fork());
    run_threads(THREADS, run);
    if (child == 0) return 0;
    EQUAL(status_of(child), 0);
    EQUAL(shared->total, 2 * THREADS * ROUNDS);
    return 0;
}
