// A handler runs in the midst of a wait, which goes on behind it and misses no signal.
#include "../check.h"
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, answer = PTHREAD_COND_INITIALIZER;
static int is_signalled, waits, handled, turn, is_over;

static void handle(UNUSED int signal) { __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST); }

// No loop around the wait: it has one end.
static void *waits_once(UNUSED void *argument) {
    pthread_mutex_lock(&mutex);
    waits = 1;
    EQUAL(pthread_cond_wait(&condition, &mutex), 0);
    EQUAL(is_signalled, 1);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void interrupt_and_signal(int flags) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    MUST(sigaction(SIGUSR1, &action, NULL));
    is_signalled = waits = handled = 0;
    pthread_t waiter = start(waits_once, NULL);
    for (int is_waiting = 0; !is_waiting; pthread_mutex_unlock(&mutex)) {
        pthread_mutex_lock(&mutex);
        is_waiting = waits;
    }
    for (int sent = 1; sent <= 20; sent++) {
        EQUAL(pthread_kill(waiter, SIGUSR1), 0);
        while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) < sent) pause_ms(1);
    }
    pthread_mutex_lock(&mutex);
    is_signalled = 1;
    EQUAL(pthread_cond_signal(&condition), 0);
    pthread_mutex_unlock(&mutex);
    join(waiter);
}

static void *takes_turns(void *argument) {
    long rounds = (long)argument;
    pthread_mutex_lock(&mutex);
    for (int round = 1; round <= rounds; round++) {
        while (turn != round) pthread_cond_wait(&condition, &mutex);
        turn = -round;
        EQUAL(pthread_cond_signal(&answer), 0);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *interrupts(void *waiter) {
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        EQUAL(pthread_kill(*(pthread_t *)waiter, SIGUSR1), 0);
        sched_yield();
    }
    return NULL;
}

int main(int argc, char **argv) {
    long rounds = count(argc, argv, 2000);
    interrupt_and_signal(0);
    interrupt_and_signal(SA_RESTART);
    pthread_t waiter = start(takes_turns, (void *)rounds);
    pthread_t interrupter = start(interrupts, &waiter);
    // A lost signal leaves one of both waiting for good.
    pthread_mutex_lock(&mutex);
    for (int round = 1; round <= rounds; round++) {
        turn = round;
        EQUAL(pthread_cond_signal(&condition), 0);
        while (turn != -round) pthread_cond_wait(&answer, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    join(interrupter);
    join(waiter);
    return 0;
}
