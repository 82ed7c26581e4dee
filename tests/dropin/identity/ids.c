// gettid, by function and by syscall, is of this thread alone and stays the same over suspensions,
// is known to the kernel as a thread of the process, and to pthread_t.
#include "../check.h"
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { THREADS = 50, ROUNDS = 10 };
static pthread_barrier_t barrier;
static pid_t ids[THREADS];

static void *run(void *argument) {
    long self = (long)argument;
    pthread_t own = pthread_self();
    ids[self] = gettid();
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(gettid(), ids[self]);
        EQUAL(syscall(SYS_gettid), ids[self]);
        CHECK(pthread_equal(own, pthread_self()));
        if (round % 2) sched_yield();
        else pthread_barrier_wait(&barrier);
        if (round == 5) pause_ms(1);
    }
    char name[64];
    struct stat status;
    snprintf(name, sizeof name, "/proc/self/task/%d", (int)ids[self]);
    MUST(stat(name, &status));
    snprintf(name, sizeof name, "/proc/thread-self/comm");
    FILE *file = fopen(name, "r");
    CHECK(file != NULL);
    fclose(file);
    MUST(syscall(SYS_tgkill, getpid(), ids[self], 0));
    // Ids are not used again before all have compared theirs.
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < THREADS; i++) {
        if (i != self) CHECK(ids[i] != ids[self]);
    }
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void) {
    EQUAL(gettid(), getpid());
    EQUAL(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    EQUAL(gettid(), getpid());
    return 0;
}
