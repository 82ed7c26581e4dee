// Deferred cancellation ends a thread in each of these calls, and runs its cleanup handlers.
#include "../check.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/socket.h>

static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ends[2], pair[2];
static pthread_t blocked;
static char byte;

static void in_nanosleep(void) { pause_ms(3600000); }
static void in_usleep(void) { usleep(999999); }
static void in_sleep(void) { sleep(3600); }
static void in_clock_nanosleep(void) {
    struct timespec far = in_ms(CLOCK_MONOTONIC, 3600000);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &far, NULL);
}
static void in_sem_wait(void) { sem_wait(&semaphore); }
static void in_sem_timedwait(void) {
    struct timespec far = in_ms(CLOCK_REALTIME, 3600000);
    sem_timedwait(&semaphore, &far);
}
static void in_read(void) { CHECK(read(ends[0], &byte, 1) != 1); }
static void in_recv(void) { recv(pair[0], &byte, 1, 0); }
static void in_poll(void) { poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, -1); }
static void in_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    select(ends[0] + 1, &set, NULL, NULL, NULL);
}
static void in_join(void) { pthread_join(blocked, NULL); }
static void in_sigwait(void) {
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &signal);
}
static void in_pause(void) { pause(); }
static void in_testcancel(void) {
    pthread_testcancel();
    sched_yield();
}

static void unlock(void *mutex) { EQUAL(pthread_mutex_unlock(mutex), 0); }

static void in_cond_wait(void) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    pthread_cleanup_push(unlock, &mutex);
    pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(1);
}

static void (*const calls[])(void) = {
    in_nanosleep, in_usleep, in_sleep, in_clock_nanosleep, in_sem_wait, in_sem_timedwait, in_read,
    in_recv, in_poll, in_select, in_join, in_sigwait, in_pause, in_testcancel, in_cond_wait,
};
enum { CALLS = sizeof calls / sizeof *calls };
static int cleaned, started;

static void clean(UNUSED void *argument) { __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED); }

static void *run(void *argument) {
    pthread_cleanup_push(clean, NULL);
    __atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
    for (;;) calls[(long)argument]();
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    MUST(sem_init(&semaphore, 0, 0));
    MUST(pipe(ends));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    blocked = start(run, (void *)0);
    pthread_t threads[CALLS][2];
    for (long i = 0; i < CALLS; i++) {
        for (int j = 0; j < 2; j++) threads[i][j] = start(run, (void *)i);
    }
    // Half of them are cancelled early; the rest when all run, and most are suspended.
    for (int j = 0; j < 2; j++) {
        for (int i = 0; i < CALLS; i++) EQUAL(pthread_cancel(threads[i][j]), 0);
        while (j == 0 && __atomic_load_n(&started, __ATOMIC_ACQUIRE) < CALLS) pause_ms(1);
    }
    for (int i = 0; i < 2 * CALLS; i++) CHECK(join(threads[i / 2][i % 2]) == PTHREAD_CANCELED);
    EQUAL(pthread_cancel(blocked), 0);
    CHECK(join(blocked) == PTHREAD_CANCELED);
    EQUAL(cleaned, __atomic_load_n(&started, __ATOMIC_RELAXED));
    EQUAL(pthread_mutex_lock(&mutex), 0);
    return 0;
}
