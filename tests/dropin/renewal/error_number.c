// errno and the message of dlerror are those of the thread, not of the last one.
#include "../check.h"
#include <dlfcn.h>

static void *spoil(UNUSED void *argument) {
    errno = ERANGE;
    CHECK(dlopen("/nonexistent/library.so", RTLD_NOW) == NULL);
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    EQUAL(errno, 0);
    CHECK(dlerror() == NULL);
    return NULL;
}

int main(void) {
    spoil(NULL);
    errno = EDOM;
    spoil_and_inspect(spoil, inspect);
    EQUAL(errno, EDOM);
    CHECK(dlerror() != NULL);
    return 0;
}
