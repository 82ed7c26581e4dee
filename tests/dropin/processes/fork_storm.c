// Threads fork at once while other threads create threads and lock: every child runs and ends.
// Argument: forks of each thread.
#include "../check.h"
#include <sys/wait.h>

enum { FORKERS = 4, OTHERS = 4 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long forks;
static int finish;

static void *nothing(void *argument) {
    free(malloc(1000));
    return argument;
}

static void *run(UNUSED void *argument) {
    for (long i = 0; i < forks; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            for (long j = 0; j < 3; j++) EQUAL(join(start(nothing, (void *)j)), j);
            char *text = malloc(100);
            snprintf(text, 100, "%d", (int)getpid());
            free(text);
            _exit(7);
        }
        int status;
        while (waitpid(child, &status, 0) == -1) EQUAL(errno, EINTR);
        CHECK(WIFEXITED(status));
        EQUAL(WEXITSTATUS(status), 7);
    }
    return NULL;
}

static void *disturb(UNUSED void *argument) {
    while (!__atomic_load_n(&finish, __ATOMIC_RELAXED)) {
        EQUAL(pthread_mutex_lock(&mutex), 0);
        join(start(nothing, NULL));
        EQUAL(pthread_mutex_unlock(&mutex), 0);
        pause_ms(0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t forkers[FORKERS], others[OTHERS];
    forks = count(argc, argv, 25);
    for (int i = 0; i < OTHERS; i++) others[i] = start(disturb, NULL);
    for (int i = 0; i < FORKERS; i++) forkers[i] = start(run, NULL);
    for (int i = 0; i < FORKERS; i++) join(forkers[i]);
    __atomic_store_n(&finish, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < OTHERS; i++) join(others[i]);
    return 0;
}
