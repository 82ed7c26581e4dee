// select and pselect: descriptors in several sets, few and many; the time that is left; interrupts,
// which leave the sets as they were, and cancellation.
#include "../check.h"
#include <signal.h>
#include <sys/select.h>

enum { MANY = 40, ROUNDS = 50 };
static int idle[2], handled, interrupted;

static void handle(UNUSED int signal) { __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED); }

static fd_set set_of(int descriptor) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(descriptor, &set);
    return set;
}

static void *writes(void *argument) {
    EQUAL(write((int)(long)argument, "x", 1), 1);
    return NULL;
}

// One of few or of many pipes becomes readable; another end can be written to all the time.
static void *finds(void *argument) {
    long many = (long)argument;
    int pipes[MANY][2];
    char byte;
    for (int i = 0; i < many; i++) MUST(pipe(pipes[i]));
    for (int round = 0; round < ROUNDS; round++) {
        fd_set read_set, write_set = set_of(pipes[0][1]), except = set_of(pipes[0][0]);
        FD_ZERO(&read_set);
        for (int i = 0; i < many; i++) FD_SET(pipes[i][0], &read_set);
        EQUAL(select(FD_SETSIZE, &read_set, &write_set, &except, NULL), 1);
        CHECK(FD_ISSET(pipes[0][1], &write_set));
        for (int i = 0; i < many; i++) CHECK(!FD_ISSET(pipes[i][0], &read_set));
        CHECK(!FD_ISSET(pipes[0][0], &except));

        int chosen = round % (int)many;
        for (int i = 0; i < many; i++) FD_SET(pipes[i][0], &read_set);
        pthread_t thread = start(writes, (void *)(long)pipes[chosen][1]);
        struct timeval time = {3600, 1500000};
        EQUAL(select(FD_SETSIZE, &read_set, NULL, NULL, &time), 1);
        for (int i = 0; i < many; i++) EQUAL(FD_ISSET(pipes[i][0], &read_set) != 0, i == chosen);
        CHECK(time.tv_sec >= 3500 && time.tv_sec <= 3601 && time.tv_usec < 1000000);
        join(thread);
        EQUAL(read(pipes[chosen][0], &byte, 1), 1);
    }
    for (int i = 0; i < many; i++) MUST(close(pipes[i][0])), MUST(close(pipes[i][1]));
    return NULL;
}

static void *is_interrupted(UNUSED void *argument) {
    fd_set set = set_of(idle[0]);
    struct timespec time = {3600, 0};
    EQUAL(pselect(idle[0] + 1, &set, NULL, NULL, &time, NULL), -1);
    EQUAL(errno, EINTR);
    CHECK(FD_ISSET(idle[0], &set));
    EQUAL(time.tv_sec, 3600);
    __atomic_store_n(&interrupted, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *is_cancelled(UNUSED void *argument) {
    fd_set set = set_of(idle[0]);
    select(idle[0] + 1, &set, NULL, NULL, NULL);
    return NULL;
}

int main(void) {
    MUST(pipe(idle));
    pthread_t threads[] = {start(finds, (void *)3), start(finds, (void *)MANY),
                           start(finds, (void *)3)};
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++) join(threads[i]);

    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_t thread = start(is_interrupted, NULL);
    // A signal before the wait interrupts nothing.
    while (!__atomic_load_n(&interrupted, __ATOMIC_ACQUIRE)) {
        EQUAL(pthread_kill(thread, SIGUSR1), 0);
        pause_ms(1);
    }
    join(thread);
    CHECK(__atomic_load_n(&handled, __ATOMIC_RELAXED) > 0);
    thread = start(is_cancelled, NULL);
    EQUAL(pthread_cancel(thread), 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    return 0;
}
