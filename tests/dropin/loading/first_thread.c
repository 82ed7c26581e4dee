// The first thread of the process is started by the constructor of a library that is being loaded,
// which waits for a value of the thread.
#include "../check.h"
#include <dlfcn.h>
#include <limits.h>

int main(UNUSED int argc, char **argv) {
    char path[PATH_MAX];
    CHECK(snprintf(path, sizeof path, "%s.so", argv[0]) < (int)sizeof path);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) FAIL("%s", dlerror());
    int (*value)(void) = (int (*)(void))dlsym(library, "value");
    CHECK(value != NULL);
    EQUAL(value(), 5);
    EQUAL(dlclose(library), 0);
    return 0;
}
