// SIGSTOP, sent to the process or to one of its threads, stops all of it, and SIGCONT lets all
// threads go on: no sleep ends early and no hop is lost.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>

enum { MEMBERS = 6, STOPS = 10 };
static sem_t semaphores[MEMBERS];
static volatile long *hops;
static volatile int *finish, *stopped;

static void *run(void *argument) {
    long self = (long)argument;
    for (int last = 0; !last;) {
        MUST(sem_wait(&semaphores[self]));
        last = *finish;
        ++*hops;
        MUST(sem_post(&semaphores[(self + 1) % MEMBERS]));
    }
    return NULL;
}

static void *sleeps(UNUSED void *argument) {
    while (!*finish) {
        struct timespec end = in_ms(CLOCK_MONOTONIC, 5);
        EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL), 0);
        CHECK(is_reached(CLOCK_MONOTONIC, end));
    }
    return NULL;
}

static void *stops_itself(void *target) {
    for (int i = 0; i < STOPS; i++) {
        long seen = *hops;
        while (*hops == seen) pause_ms(0);
        EQUAL(pthread_kill(i % 2 ? pthread_self() : *(pthread_t *)target, SIGSTOP), 0);
        while (*stopped <= i) pause_ms(0);
    }
    return NULL;
}

static int child(void) {
    pthread_t threads[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) MUST(sem_init(&semaphores[i], 0, i == 0));
    for (long i = 0; i < MEMBERS; i++) threads[i] = start(run, (void *)i);
    pthread_t sleeper = start(sleeps, NULL), stopper = start(stops_itself, &threads[0]);
    for (int i = 0; i < MEMBERS; i++) join(threads[i]);
    join(sleeper);
    join(stopper);
    return 0;
}

int main(void) {
    hops = shared_page();
    finish = (volatile int *)(hops + 1);
    stopped = finish + 1;
    pid_t pid = MUST(fork());
    if (pid == 0) return child();
    int status;
    for (int stops = 0; stops < 2 * STOPS; stops++) {
        // The thread in the child sends half of the stops, and this process the rest.
        if (stops >= STOPS) MUST(kill(pid, SIGSTOP));
        EQUAL(waitpid(pid, &status, WUNTRACED), pid);
        CHECK(WIFSTOPPED(status));
        long seen = *hops;
        pause_ms(2);
        EQUAL(*hops, seen);
        ++*stopped;
        MUST(kill(pid, SIGCONT));
    }
    *finish = 1;
    EQUAL(waitpid(pid, &status, 0), pid);
    EQUAL(status, 0);
    return 0;
}
