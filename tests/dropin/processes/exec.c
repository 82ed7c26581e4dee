// exec from a thread, while other threads are suspended and run, replaces the whole process: it
// keeps the process id, which is the new thread id as well, and open descriptors.
#include "../check.h"
#include <sched.h>
#include <semaphore.h>

static sem_t never;
static int ends[2];

static void *waits(UNUSED void *argument) {
    for (;;) sem_wait(&never);
    return NULL;
}

static void *yields(UNUSED void *argument) {
    for (;;) sched_yield();
    return NULL;
}

static void *execs(void *own) {
    char keep[16], pid[16];
    snprintf(keep, sizeof keep, "%d", ends[1]);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    pause_ms(1);
    execl(own, own, "replaced", keep, pid, NULL);
    FAIL("exec failed with errno %d", errno);
    return NULL;
}

static void *returns(void *argument) { return argument; }

static int replaced(char **argv) {
    EQUAL(getpid(), atoi(argv[3]));
    EQUAL(gettid(), atoi(argv[3]));
    EQUAL(write(atoi(argv[2]), "x", 1), 1);
    CHECK(join(start(returns, argv)) == argv);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "replaced") == 0) return replaced(argv);
    static char own[4096];
    MUST(readlink("/proc/self/exe", own, sizeof own - 1));
    MUST(pipe(ends));
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(sem_init(&never, 0, 0));
        for (int i = 0; i < 4; i++) start(i % 2 ? waits : yields, NULL);
        join(start(execs, own));
    }
    MUST(close(ends[1]));
    char bytes[2];
    EQUAL(read(ends[0], bytes, 2), 1);
    EQUAL(bytes[0], 'x');
    EQUAL(read(ends[0], bytes, 1), 0);
    EQUAL(status_of(child), 0);
    return 0;
}
