// Handlers run during a wait for a barrier, rwlock, mutex or condition variable, on the thread's
// stack and with its thread-locals, and the wait goes on.
#include "../check.h"
#include <signal.h>

enum { KINDS = 6, SIGNALS = 30 };
static __thread long self = -1;
static char *stacks[KINDS];
static int handled[KINDS], done[KINDS];
static pthread_barrier_t begin, barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void handle(UNUSED int signal) {
    char here;
    CHECK(self >= 0 && self < KINDS);
    CHECK(&here < stacks[self] && stacks[self] - &here < 1 << 20);
    EQUAL(done[self], 0);
    int kept = errno;
    errno = EDOM;
    __atomic_add_fetch(&handled[self], 1, __ATOMIC_RELEASE);
    errno = kept;
}

static void wait_for_kind(long kind) {
    struct timespec far = in_ms(CLOCK_REALTIME, 3600000);
    if (kind == 0) CHECK(pthread_barrier_wait(&barrier) <= 0);
    if (kind == 1) EQUAL(pthread_rwlock_rdlock(&rwlock), 0);
    if (kind == 2) EQUAL(pthread_rwlock_timedrdlock(&rwlock, &far), 0);
    if (kind == 1 || kind == 2) EQUAL(pthread_rwlock_unlock(&rwlock), 0);
    if (kind < 3) return;
    EQUAL(kind == 3 ? pthread_mutex_lock(&mutex) : pthread_mutex_timedlock(&mutex, &far), 0);
    if (kind == 5) {
        while (!done[0]) EQUAL(pthread_cond_timedwait(&cond, &mutex, &far), 0);
    }
    EQUAL(pthread_mutex_unlock(&mutex), 0);
}

static void *run(void *argument) {
    char here;
    self = (long)argument;
    stacks[self] = &here + 1;
    pthread_barrier_wait(&begin);
    errno = 99;
    wait_for_kind(self);
    EQUAL(errno, 99);
    sigset_t set;
    sigfillset(&set);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    __atomic_store_n(&done[self], 1, __ATOMIC_RELEASE);
    if (self == 0) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        EQUAL(pthread_cond_broadcast(&cond), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    EQUAL(pthread_barrier_init(&begin, NULL, KINDS + 1), 0);
    EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
    EQUAL(pthread_rwlock_wrlock(&rwlock), 0);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    pthread_t threads[KINDS];
    for (long i = 0; i < KINDS; i++) threads[i] = start(run, (void *)i);
    pthread_barrier_wait(&begin);
    for (int round = 1; round <= SIGNALS; round++) {
        for (int i = 0; i < KINDS; i++) {
            EQUAL(pthread_kill(threads[i], SIGUSR1), 0);
            while (__atomic_load_n(&handled[i], __ATOMIC_ACQUIRE) < round) pause_ms(0);
            EQUAL(done[i], 0);
        }
    }
    EQUAL(pthread_rwlock_unlock(&rwlock), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < KINDS; i++) join(threads[i]);
    return 0;
}
