// A signal reaches a thread that computes in its start routine, without a frame on the stack.
#include "../check.h"
#include <signal.h>

static volatile int handled;

static void handle(UNUSED int signal) { handled++; }

static void *run(UNUSED void *argument) {
    while (handled < 3) {}
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_t thread = start(run, NULL);
    for (int i = 0; i < 3; i++) {
        EQUAL(pthread_kill(thread, SIGUSR1), 0);
        while (handled == i) pause_ms(1);
    }
    join(thread);
    return 0;
}
