// A thread that has returned and was not joined takes no signal, cancellation or name, nor does any
// thread that is started later.
#include "../check.h"
#include <sched.h>
#include <semaphore.h>
#include <signal.h>

enum { ROUNDS = 200 };
static pthread_mutex_t robust;
static sem_t has_returned;

static void *returns(void *argument) {
    return argument;
}

static void *is_as_new(void *argument) {
    char name[16];
    EQUAL(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    CHECK(strcmp(name, "changed") != 0);
    sigset_t pending;
    MUST(sigpending(&pending));
    CHECK(!sigismember(&pending, SIGUSR1));
    pthread_testcancel();
    return argument;
}

static void *keeps_locked(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&robust), 0);
    return NULL;
}

static void *blocks_a_signal(UNUSED void *argument) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    // It waits for ever.
    EQUAL(pthread_kill(pthread_self(), SIGUSR1), 0);
    return NULL;
}

static void *posts(UNUSED void *argument) {
    sem_post(&has_returned);
    return NULL;
}

int main(void) {
    EQUAL(sem_init(&has_returned, 0, 0), 0);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread = start(returns, NULL);
        void *result;
        int tried;
        while ((tried = pthread_tryjoin_np(thread, &result)) == EBUSY) sched_yield();
        EQUAL(tried, 0);

        thread = start(posts, NULL);
        sem_wait(&has_returned);
        // It may be returning.
        sched_yield();
        EQUAL(pthread_cancel(thread), 0);
        join(thread);
        join(start(is_as_new, NULL));

        join(start(blocks_a_signal, NULL));
        join(start(is_as_new, NULL));
    }

    pthread_t thread = start(returns, NULL);
    pause_ms(20);
    EQUAL(pthread_kill(thread, SIGUSR1), 0);
    EQUAL(pthread_cancel(thread), 0);
    pthread_setname_np(thread, "changed");
    EQUAL(join(thread), 0);
    join(start(is_as_new, NULL));

    pthread_mutexattr_t attributes;
    EQUAL(pthread_mutexattr_init(&attributes), 0);
    EQUAL(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), 0);
    for (int i = 0; i < 3; i++) {
        EQUAL(pthread_mutex_init(&robust, &attributes), 0);
        join(start(keeps_locked, NULL));
        EQUAL(pthread_mutex_lock(&robust), EOWNERDEAD);
        EQUAL(pthread_mutex_consistent(&robust), 0);
        EQUAL(pthread_mutex_unlock(&robust), 0);
        EQUAL(pthread_mutex_destroy(&robust), 0);
    }

    // Detached threads, and threads that are detached once they have returned.
    pthread_attr_t detached;
    EQUAL(pthread_attr_init(&detached), 0);
    EQUAL(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED), 0);
    for (int i = 0; i < ROUNDS; i++) {
        EQUAL(pthread_create(&thread, i % 2 ? &detached : NULL, posts, NULL), 0);
        sem_wait(&has_returned);
        if (i % 2 == 0) EQUAL(pthread_detach(thread), 0);
    }
    return 0;
}
