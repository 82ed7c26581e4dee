// If a process is killed while its thread owns a shared robust mutex, a thread of another process
// that waits for it gets EOWNERDEAD.
#include "../check.h"
#include <signal.h>

struct shared {
    pthread_mutex_t mutex;
    int owned;
};
static struct shared *shared;

static void *owns(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&shared->mutex), 0);
    __atomic_store_n(&shared->owned, 1, __ATOMIC_RELEASE);
    for (;;) pause();
}

static void *waits(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&shared->mutex), EOWNERDEAD);
    EQUAL(pthread_mutex_consistent(&shared->mutex), 0);
    EQUAL(pthread_mutex_unlock(&shared->mutex), 0);
    return NULL;
}

int main(void) {
    shared = shared_page();
    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EQUAL(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), 0);
    EQUAL(pthread_mutex_init(&shared->mutex, &attributes), 0);
    for (int round = 0; round < 20; round++) {
        shared->owned = 0;
        pid_t child = MUST(fork());
        if (child == 0) join(start(owns, NULL));
        while (!__atomic_load_n(&shared->owned, __ATOMIC_ACQUIRE)) pause_ms(1);
        pthread_t waiter = start(waits, NULL);
        if (round % 2) pause_ms(1);
        MUST(kill(child, SIGKILL));
        join(waiter);
        EQUAL(waitpid(child, NULL, 0), child);
        EQUAL(pthread_mutex_lock(&shared->mutex), 0);
        EQUAL(pthread_mutex_unlock(&shared->mutex), 0);
    }
    return 0;
}
