// A new thread has name, blocked signals and niceness of the thread that creates it, which need not
// be the initial one.
#include "../check.h"
#include <signal.h>
#include <sys/resource.h>

enum { DEPTH = 4, WIDTH = 3 };

static void inherits(int blocked, int niceness) {
    char name[16];
    EQUAL(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    if (strcmp(name, "given") != 0) FAIL("the name is %s", name);
    sigset_t set;
    EQUAL(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    for (int signal = 1; signal < 32; signal++) EQUAL(sigismember(&set, signal), signal == blocked);
    EQUAL(getpriority(PRIO_PROCESS, (id_t)gettid()), niceness);
}

// All threads of a level are there at once, with those above: none takes the place of another.
static void *plain(void *argument) {
    long depth = (long)argument;
    inherits(SIGUSR1, 0);
    if (depth == DEPTH) return NULL;
    pthread_t threads[WIDTH];
    for (int i = 0; i < WIDTH; i++) threads[i] = start(plain, (void *)(depth + 1));
    for (int i = 0; i < WIDTH; i++) join(threads[i]);
    return NULL;
}

static void *below(UNUSED void *argument) {
    inherits(SIGUSR2, 3);
    return NULL;
}

static void block_only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    EQUAL(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
}

static void *changes(UNUSED void *argument) {
    block_only(SIGUSR2);
    MUST(setpriority(PRIO_PROCESS, (id_t)gettid(), 3));
    join(start(below, NULL));
    return NULL;
}

static void *begins(UNUSED void *argument) {
    block_only(SIGUSR1);
    EQUAL(pthread_setname_np(pthread_self(), "given"), 0);
    plain((void *)1);
    join(start(changes, NULL));
    plain((void *)1);
    return NULL;
}

int main(void) {
    join(start(begins, NULL));
    return 0;
}
