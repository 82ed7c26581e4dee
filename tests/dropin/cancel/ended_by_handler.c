// A handler that ends its thread in a wait for a descriptor, a futex or another thread leaves no
// trace of that wait: the next wait there is woken.
#include "../check.h"
#include <linux/futex.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

static int ends[2], word;
static sem_t begun;
static pthread_t blocked;

static void leave(UNUSED int signal) { pthread_exit(&word); }

static void *reads(UNUSED void *argument) {
    char byte;
    MUST(sem_post(&begun));
    EQUAL(read(ends[0], &byte, 1), 1);
    return NULL;
}

static void *waits(UNUSED void *argument) {
    MUST(sem_post(&begun));
    EQUAL(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL), 0);
    return NULL;
}

static void *joins(UNUSED void *argument) {
    MUST(sem_post(&begun));
    EQUAL(pthread_join(blocked, NULL), 0);
    return NULL;
}

static void *sleeps(void *semaphore) {
    MUST(sem_wait(semaphore));
    return NULL;
}

// Starts a thread, and ends it by the handler, in its wait mostly.
static void end_in(void *(*run)(void *)) {
    pthread_t thread = start(run, NULL);
    MUST(sem_wait(&begun));
    pause_ms(1);
    EQUAL(pthread_kill(thread, SIGUSR1), 0);
    CHECK(join(thread) == &word);
}

int main(void) {
    MUST(pipe(ends));
    MUST(sem_init(&begun, 0, 0));
    struct sigaction action = {.sa_handler = leave};
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (int round = 0; round < 20; round++) {
        end_in(reads);
        end_in(reads);
        pthread_t thread = start(reads, NULL);
        MUST(sem_wait(&begun));
        EQUAL(write(ends[1], "x", 1), 1);
        EQUAL(join(thread), 0);

        end_in(waits);
        thread = start(waits, NULL);
        MUST(sem_wait(&begun));
        while (syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1) == 0) pause_ms(0);
        EQUAL(join(thread), 0);

        sem_t end;
        MUST(sem_init(&end, 0, 0));
        blocked = start(sleeps, &end);
        end_in(joins);
        MUST(sem_post(&end));
        EQUAL(join(blocked), 0);
    }
    return 0;
}
