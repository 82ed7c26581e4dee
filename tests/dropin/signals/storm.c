// Signals at random against a ring of threads lose neither a hop nor a queued signal, and leave
// errno alone. Argument: seconds.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

enum { MEMBERS = 8, QUEUED = 200 };
static sem_t semaphores[MEMBERS];
static pthread_t threads[MEMBERS];
static int stop, hops;
static long sent, handled, restarted;

static void handle(int signal) {
    int kept = errno;
    errno = EDOM;
    __atomic_add_fetch(signal == SIGUSR1 ? &restarted : &handled, 1, __ATOMIC_RELAXED);
    errno = kept;
}

static void *run(void *argument) {
    long self = (long)argument, next = (self + 1) % MEMBERS;
    for (;;) {
        errno = ENOTTY;
        while (sem_wait(&semaphores[self])) EQUAL(errno, EINTR);
        int last = __atomic_load_n(&stop, __ATOMIC_RELAXED);
        if (!last) __atomic_add_fetch(&hops, 1, __ATOMIC_RELAXED);
        errno = ENOTTY;
        MUST(sem_post(&semaphores[next]));
        EQUAL(errno, ENOTTY);
        if (last) return NULL;
    }
}

static void send_some(unsigned *seed) {
    int seen = __atomic_load_n(&hops, __ATOMIC_RELAXED);
    for (int i = 0; i < QUEUED; i++) {
        pthread_t thread = threads[rand_r(seed) % MEMBERS];
        int result = 0;
        if (rand_r(seed) % 4 == 0) {
            EQUAL(pthread_kill(thread, SIGUSR1), 0);
        } else if ((result = pthread_sigqueue(thread, SIGRTMIN, (union sigval){0})) == 0) {
            sent++;
        }
        CHECK(result == 0 || result == EAGAIN);
    }
    // The ring moves on, and every queued signal arrives.
    while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < sent) pause_ms(0);
    while (__atomic_load_n(&hops, __ATOMIC_RELAXED) == seen) pause_ms(0);
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = handle};
    unsigned seed = (unsigned)time(NULL);
    MUST(sigaction(SIGRTMIN, &action, NULL));
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (int i = 0; i < MEMBERS; i++) MUST(sem_init(&semaphores[i], 0, i == 0));
    for (long i = 0; i < MEMBERS; i++) threads[i] = start(run, (void *)i);
    struct timespec end = in_ms(CLOCK_MONOTONIC, 1000 * count(argc, argv, 1));
    while (!is_reached(CLOCK_MONOTONIC, end)) send_some(&seed);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < MEMBERS; i++) join(threads[i]);
    EQUAL(handled, sent);
    CHECK(restarted > 0);
    return 0;
}
