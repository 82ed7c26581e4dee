// abort, SIGKILL, SIGTERM and a fault end a process with suspended threads by that signal, whether
// the process or one thread gets it, and also if abort's handler returns.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>

static sem_t never;
static int *handled;

static void handle(UNUSED int signal) { ++*handled; }

static void *waits(UNUSED void *argument) {
    for (;;) sem_wait(&never);
    return NULL;
}

static void *dies(void *argument) {
    switch ((long)argument) {
    case 0: abort();
    case 1: raise(SIGTERM); break;
    case 2: *(volatile char *)16 = 1; break;
    case 3: kill(getpid(), SIGKILL); break;
    }
    pause_ms(3600000);
    return NULL;
}

static int child(long way, int in_thread) {
    struct rlimit none = {0, 0};
    MUST(setrlimit(RLIMIT_CORE, &none));
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGABRT, &action, NULL));
    MUST(sem_init(&never, 0, 0));
    for (int i = 0; i < 4; i++) start(waits, NULL);
    if (!in_thread) dies((void *)way);
    join(start(dies, (void *)way));
    return 1;
}

int main(void) {
    handled = shared_page();
    int signals[] = {SIGABRT, SIGTERM, SIGSEGV, SIGKILL};
    for (int i = 0; i < 8; i++) {
        pid_t pid = MUST(fork());
        if (pid == 0) return child(i % 4, i / 4);
        int status = status_of(pid);
        CHECK(WIFSIGNALED(status));
        EQUAL(WTERMSIG(status), signals[i % 4]);
    }
    EQUAL(*handled, 2);
    return 0;
}
