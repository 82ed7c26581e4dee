// A library with thread-locals may be loaded and unloaded by any thread: all threads, also older
// threads, have its first values, and those of a library that is loaded again are fresh.
#include "../check.h"
#include <dlfcn.h>
#include <sched.h>

enum { THREADS = 8, ROUNDS = 5, CALLS = 20 };
static pthread_barrier_t barrier;
static int (*add)(int);

static void *load(void *argument) {
    void *library = dlopen("$ORIGIN/thread_local.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) FAIL("%s", dlerror());
    *(void **)&add = dlsym(library, "add");
    CHECK(add != NULL);
    *(void **)argument = library;
    return NULL;
}

static void *run(void *argument) {
    int self = (int)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        // Now it is loaded.
        for (int i = 1; i <= CALLS; i++) {
            EQUAL(add(self), 11 + i * self);
            sched_yield();
            if (i % 10 == 0) pause_ms(1);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    EQUAL(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int round = 0; round < ROUNDS; round++) {
        void *library;
        join(start(load, &library));
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        EQUAL(dlclose(library), 0);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
