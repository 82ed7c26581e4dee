// exit, _exit, quick_exit and a return from main, by the first or another thread, end the process
// at once with their code although threads are suspended; exit handlers run where they should.
#define ENDS_ELSEWHERE
#include "../check.h"
#include <semaphore.h>

enum { BY_RETURN, BY_EXIT, BY_UNDERSCORE, BY_QUICK, WAYS };
static sem_t never, semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

static void *waits(void *argument) {
    long kind = (long)argument;
    if (kind == 0) sem_wait(&never);
    if (kind == 1) pause_ms(3600000);
    if (kind == 2) pthread_mutex_lock(&mutex);
    if (kind == 3) pause();
    FAIL("a thread came back from a wait without end");
    return NULL;
}

static void at_exit(void) {
    // Handlers may still suspend.
    MUST(sem_post(&semaphore));
    MUST(sem_wait(&semaphore));
    pause_ms(1);
    EQUAL(write(ends[1], "e", 1), 1);
}
static void at_quick(void) { EQUAL(write(ends[1], "q", 1), 1); }

static void *leave(void *argument) {
    long way = (long)argument;
    if (way == BY_EXIT) exit(40 + BY_EXIT);
    if (way == BY_UNDERSCORE) _exit(40 + BY_UNDERSCORE);
    if (way == BY_QUICK) quick_exit(40 + BY_QUICK);
    return NULL;
}

static int child(long way, int in_thread) {
    MUST(sem_init(&never, 0, 0));
    MUST(sem_init(&semaphore, 0, 0));
    EQUAL(pthread_mutex_lock(&mutex), 0);
    EQUAL(atexit(at_exit), 0);
    EQUAL(at_quick_exit(at_quick), 0);
    for (long i = 0; i < 8; i++) start(waits, (void *)(i % 4));
    if (in_thread && way != BY_RETURN) join(start(leave, (void *)way));
    leave((void *)way);
    return 40 + BY_RETURN;
}

int main(void) {
    for (int i = 0; i < 2 * WAYS; i++) {
        int way = i % WAYS;
        MUST(pipe(ends));
        pid_t pid = MUST(fork());
        if (pid == 0) return child(way, i / WAYS);
        MUST(close(ends[1]));
        char bytes[4] = "";
        const char *wanted = way == BY_UNDERSCORE ? "" : way == BY_QUICK ? "q" : "e";
        EQUAL(read(ends[0], bytes, 3), strlen(wanted));
        CHECK(strcmp(bytes, wanted) == 0);
        MUST(close(ends[0]));
        int status = status_of(pid);
        CHECK(WIFEXITED(status));
        EQUAL(WEXITSTATUS(status), 40 + way);
    }
    return 0;
}
