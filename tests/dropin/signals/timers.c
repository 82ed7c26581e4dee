// Timers notify by a signal for the thread that they name, by one for the process, and by a thread
// (SIGEV_THREAD); none is early, and periods go on.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { TIMES = 5 };
static sem_t notified;
static __thread int is_named;
static struct timespec first;

static void handle(UNUSED int signal, siginfo_t *info, UNUSED void *context) {
    int kept = errno;
    CHECK(is_named);
    EQUAL(info->si_code, SI_TIMER);
    CHECK(info->si_value.sival_ptr == &notified);
    sem_post(&notified);
    errno = kept;
}

static void notify(union sigval value) {
    CHECK(value.sival_ptr == &notified);
    CHECK(is_reached(CLOCK_MONOTONIC, first));
    MUST(sem_post(&notified));
}

static void count_times(struct sigevent *event) {
    timer_t timer;
    event->sigev_value.sival_ptr = &notified;
    first = in_ms(CLOCK_MONOTONIC, 10);
    MUST(timer_create(CLOCK_MONOTONIC, event, &timer));
    struct itimerspec times = {.it_value = {0, 10000000}, .it_interval = {0, 2000000}};
    MUST(timer_settime(timer, 0, &times, NULL));
    for (int i = 0; i < TIMES; i++) {
        while (sem_wait(&notified)) EQUAL(errno, EINTR);
        CHECK(is_reached(CLOCK_MONOTONIC, first));
    }
    MUST(timer_delete(timer));
    // Periods that ended since the last wait.
    while (sem_trywait(&notified) == 0) {}
}

static void *named(UNUSED void *argument) {
    is_named = 1;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    count_times(&event);
    event.sigev_notify_thread_id = gettid();
    count_times(&event);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGRTMIN + 1, &action, NULL));
    MUST(sem_init(&notified, 0, 0));
    for (int i = 0; i < 3; i++) join(start(named, NULL));

    is_named = 1;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    count_times(&event);

    // The last one, as threads of the deleted timer may still be on their way.
    event = (struct sigevent){.sigev_notify = SIGEV_THREAD};
    event.sigev_notify_function = notify;
    count_times(&event);
    return 0;
}
