// A child that is forked while other threads close descriptors and take signals starts threads of
// its own.
#include "../check.h"
#include <fcntl.h>
#include <signal.h>

enum { FORKS = 100 };
static int over;

// A number that no file of the program has: of a library, if there is one.
static void *closes(UNUSED void *argument) {
    int number = 800;
    while (number < 1023 && fcntl(number, F_GETFD) == -1) number++;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        EQUAL(close(number), -1);
        EQUAL(errno, EBADF);
    }
    return NULL;
}

static void handle(UNUSED int signal) {}

static void *idles(UNUSED void *argument) {
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) pause_ms(1);
    return NULL;
}

static void *nothing(void *argument) { return argument; }

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_t closer = start(closes, NULL), idler = start(idles, NULL);
    for (int i = 0; i < FORKS; i++) {
        EQUAL(pthread_kill(idler, SIGUSR1), 0);
        pid_t child = MUST(fork());
        if (child == 0) {
            join(start(nothing, NULL));
            _exit(3);
        }
        EQUAL(status_of(child), 3 << 8);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    join(closer);
    join(idler);
    return 0;
}
