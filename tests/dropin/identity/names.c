// The name of a thread, set by itself or by another thread, is the one in /proc for its id.
#include "../check.h"

enum { THREADS = 10 };
static pthread_barrier_t barrier;
static pid_t ids[THREADS];

static void is_named(pid_t id, const char *wanted) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)id);
    FILE *file = fopen(path, "r");
    CHECK(file && fgets(name, sizeof name, file));
    fclose(file);
    name[strcspn(name, "\n")] = 0;
    if (strcmp(name, wanted) != 0) FAIL("thread %d is named %s, not %s", (int)id, name, wanted);
}

static void *run(void *argument) {
    long self = (long)argument;
    char name[16];
    ids[self] = gettid();
    pthread_barrier_wait(&barrier);
    if (self % 2) {
        snprintf(name, sizeof name, "own %ld", self);
        EQUAL(pthread_setname_np(pthread_self(), name), 0);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    snprintf(name, sizeof name, self % 2 ? "own %ld" : "given %ld", self);
    is_named(ids[self], name);
    return NULL;
}

int main(void) {
    char name[16];
    EQUAL(pthread_setname_np(pthread_self(), "main"), 0);
    EQUAL(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < THREADS; i += 2) {
        snprintf(name, sizeof name, "given %ld", i);
        EQUAL(pthread_setname_np(threads[i], name), 0);
    }
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < THREADS; i++) {
        snprintf(name, sizeof name, i % 2 ? "own %ld" : "given %ld", i);
        is_named(ids[i], name);
        char told[16];
        EQUAL(pthread_getname_np(threads[i], told, sizeof told), 0);
        CHECK(strcmp(told, name) == 0);
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    is_named(getpid(), "main");
    return 0;
}
