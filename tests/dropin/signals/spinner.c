// A signal and an asynchronous cancellation reach a thread that computes without a call, on a stack
// full of return addresses of earlier calls.
#include "../check.h"
#include <semaphore.h>
#include <sched.h>
#include <signal.h>

static sem_t begun;
static volatile sig_atomic_t handled;

static void handle(UNUSED int signal) { handled = 1; }

// Calls that leave return addresses on the stack.
static void use_stack(void) {
    sem_t own;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    MUST(sem_init(&own, 0, 1));
    MUST(sem_wait(&own));
    MUST(sem_destroy(&own));
    struct timespec none = {0, 1};
    MUST(nanosleep(&none, NULL));
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(sched_yield(), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    EQUAL(write(-1, "", 1), -1);
}

// Computes in a frame that covers these addresses.
__attribute__((noinline)) static void spin(int until_handled) {
    char volatile room[16384];
    room[0] = 0;
    MUST(sem_post(&begun));
    while (!until_handled || !handled) room[0]++;
}

static void *run(void *argument) {
    int old;
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
    use_stack();
    spin(argument != NULL);
    return NULL;
}

int main(void) {
    MUST(sem_init(&begun, 0, 0));
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (int round = 0; round < 20; round++) {
        handled = 0;
        pthread_t thread = start(run, &begun);
        MUST(sem_wait(&begun));
        EQUAL(pthread_kill(thread, SIGUSR1), 0);
        EQUAL(join(thread), 0);
        thread = start(run, NULL);
        MUST(sem_wait(&begun));
        EQUAL(pthread_cancel(thread), 0);
        CHECK(join(thread) == PTHREAD_CANCELED);
    }
    return 0;
}
