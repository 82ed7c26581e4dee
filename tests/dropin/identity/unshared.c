// A thread that unshares its working folder, umask and descriptors, or sets its file-system user,
// changes nothing for other threads, and keeps its own over suspensions.
#include "../check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

static pthread_barrier_t barrier;
static char before[4096];
static int shared;

static void is_in(const char *wanted) {
    char now[4096];
    CHECK(getcwd(now, sizeof now) != NULL);
    if (strcmp(now, wanted) != 0) FAIL("the working folder is %s, not %s", now, wanted);
}

static void *differs(UNUSED void *argument) {
    MUST(unshare(CLONE_FS | CLONE_FILES));
    MUST(chdir("/"));
    umask(077);
    MUST(close(shared));
    if (geteuid() == 0) setfsuid(65534);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 20; i++) {
        if (i % 2) sched_yield();
        else pause_ms(1);
        is_in("/");
        EQUAL(umask(077), 077);
        EQUAL(fcntl(shared, F_GETFD), -1);
        if (geteuid() == 0) EQUAL(setfsuid((uid_t)-1), 65534);
    }
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *same(UNUSED void *argument) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 20; i++) {
        is_in(before);
        EQUAL(umask(022), 022);
        MUST(fcntl(shared, F_GETFD));
        if (geteuid() == 0) EQUAL(setfsuid((uid_t)-1), 0);
        if (i % 2) sched_yield();
        else pause_ms(1);
    }
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void) {
    CHECK(getcwd(before, sizeof before) != NULL);
    umask(022);
    shared = (int)MUST(dup(0));
    EQUAL(pthread_barrier_init(&barrier, NULL, 5), 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(i % 2 ? differs : same, NULL);
    same(NULL);
    for (int i = 0; i < 4; i++) join(threads[i]);
    is_in(before);
    // New threads, which may have the memory of those.
    EQUAL(pthread_barrier_destroy(&barrier), 0);
    EQUAL(pthread_barrier_init(&barrier, NULL, 4), 0);
    for (int i = 0; i < 4; i++) threads[i] = start(same, NULL);
    for (int i = 0; i < 4; i++) join(threads[i]);
    return 0;
}
