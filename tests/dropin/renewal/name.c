// A new thread has the name of its creator, though the last one had another name.
#include "../check.h"
#include <sys/prctl.h>

static void is_named(const char *wanted) {
    char name[16];
    EQUAL(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    if (strcmp(name, wanted) != 0) FAIL("the name is %s, not %s", name, wanted);
    MUST(prctl(PR_GET_NAME, name));
    if (strcmp(name, wanted) != 0) FAIL("prctl tells the name %s, not %s", name, wanted);
}

static void *spoil(UNUSED void *argument) {
    EQUAL(pthread_setname_np(pthread_self(), "spoiled"), 0);
    is_named("spoiled");
    MUST(prctl(PR_SET_NAME, "by prctl"));
    is_named("by prctl");
    pause_ms(1);
    is_named("by prctl");
    EQUAL(pthread_setname_np(pthread_self(), "longer than 15 bytes"), ERANGE);
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    is_named("creator");
    return NULL;
}

int main(void) {
    EQUAL(pthread_setname_np(pthread_self(), "creator"), 0);
    spoil_and_inspect(spoil, inspect);
    is_named("creator");
    return 0;
}
