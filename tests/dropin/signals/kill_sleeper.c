// pthread_kill runs the handler in the thread that it names, also while that thread is suspended:
// there it ends sleeps, and is invisible to mutexes and condition variables.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

enum { THREADS = 4, SIGNALS = 50 };
static __thread int self;
static int handled[THREADS], ended[THREADS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int go_on;

static void handle(int signal) {
    EQUAL(signal, SIGUSR1);
    __atomic_add_fetch(&handled[self], 1, __ATOMIC_RELEASE);
}

static void *run(void *argument) {
    self = (int)(long)argument;
    EQUAL(pthread_barrier_wait(&barrier) <= 0, 1);
    if (self == 0) {
        struct timespec hour = {3600, 0};
        EQUAL(nanosleep(&hour, NULL), -1);
        EQUAL(errno, EINTR);
    } else if (self == 1) {
        EQUAL(pause(), -1);
        EQUAL(errno, EINTR);
    } else if (self == 2) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        EQUAL(pthread_mutex_unlock(&mutex), 0);
    }
    EQUAL(pthread_mutex_lock(&mutex), 0);
    while (!go_on) EQUAL(pthread_cond_wait(&cond, &mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    ended[self] = 1;
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    EQUAL(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
    pthread_t threads[THREADS];
    EQUAL(pthread_mutex_lock(&mutex), 0);
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    pthread_barrier_wait(&barrier);
    for (int round = 1; round <= SIGNALS; round++) {
        for (int i = 0; i < THREADS; i++) EQUAL(pthread_kill(threads[i], SIGUSR1), 0);
        for (int i = 0; i < THREADS; i++) {
            while (__atomic_load_n(&handled[i], __ATOMIC_ACQUIRE) < round) pause_ms(1);
        }
    }
    go_on = 1;
    EQUAL(pthread_cond_broadcast(&cond), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    // A signal before nanosleep or pause has begun does not end it.
    for (int i = 0; i < THREADS; i++) {
        while (pthread_tryjoin_np(threads[i], NULL) == EBUSY) {
            EQUAL(pthread_kill(threads[i], SIGUSR1), 0);
            pause_ms(1);
        }
        EQUAL(ended[i], 1);
    }
    EQUAL(pthread_kill(pthread_self(), 0), 0);
    EQUAL(pthread_kill(pthread_self(), 100), EINVAL);
    return 0;
}
