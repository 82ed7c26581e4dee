// While one thread suspends in a constructor of dlopen, which holds a lock of the loader, all
// threads that load the library wait for its end and get the same library.
#include "../check.h"
#include <dlfcn.h>

enum { THREADS = 10, ROUNDS = 3 };

static void *run(UNUSED void *argument) {
    void *library = dlopen("$ORIGIN/constructor.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) FAIL("%s", dlerror());
    int *constructed = dlsym(library, "constructed");
    CHECK(constructed != NULL);
    EQUAL(*constructed, 1);
    return library;
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        void *library = NULL;
        for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
        for (int i = 0; i < THREADS; i++) {
            void *got = join(threads[i]);
            CHECK(library == NULL || library == got);
            library = got;
        }
        for (int i = 0; i < THREADS; i++) EQUAL(dlclose(library), 0);
        CHECK(dlopen("$ORIGIN/constructor.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
    }
    return 0;
}
