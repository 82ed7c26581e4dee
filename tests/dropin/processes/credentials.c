// setuid, setgid and setgroups change all threads: running, suspended and created later.
#include "../check.h"
#include <grp.h>
#include <sched.h>

enum { THREADS = 6, USER = 65534 };
static pthread_barrier_t begin, end;
static int changed;

static void are_credentials(uid_t wanted) {
    EQUAL(getuid(), wanted);
    EQUAL(geteuid(), wanted);
    EQUAL(getegid(), wanted);
    // The kernel's word for this thread, as the ids are the thread's there.
    char name[64], line[256];
    unsigned real = 1, effective = 1;
    snprintf(name, sizeof name, "/proc/self/task/%d/status", (int)gettid());
    FILE *file = fopen(name, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file)) sscanf(line, "Uid: %u %u", &real, &effective);
    fclose(file);
    EQUAL(real, wanted);
    EQUAL(effective, wanted);
}

static void *run(void *argument) {
    are_credentials(0);
    pthread_barrier_wait(&begin);
    if (argument) {
        while (!__atomic_load_n(&changed, __ATOMIC_ACQUIRE)) sched_yield();
    } else {
        pthread_barrier_wait(&end);
    }
    are_credentials(USER);
    EQUAL(setuid(0), -1);
    EQUAL(errno, EPERM);
    return NULL;
}

static void *changes(UNUSED void *argument) {
    MUST(setgroups(0, NULL));
    MUST(setgid(USER));
    MUST(setuid(USER));
    // The thread itself, too, also where it waits for its kernel thread.
    are_credentials(USER);
    pause_ms(1);
    EQUAL(setuid(0), -1);
    return NULL;
}

static void *later(UNUSED void *argument) {
    are_credentials(USER);
    return NULL;
}

int main(void) {
    if (getuid() != 0) SKIP("only root can change its user: run as root");
    EQUAL(pthread_barrier_init(&begin, NULL, THREADS + 1), 0);
    EQUAL(pthread_barrier_init(&end, NULL, THREADS / 2 + 1), 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)(i % 2));
    pthread_barrier_wait(&begin);
    join(start(changes, NULL));
    __atomic_store_n(&changed, 1, __ATOMIC_RELEASE);
    pthread_barrier_wait(&end);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    are_credentials(USER);
    for (int i = 0; i < 10; i++) join(start(later, NULL));
    return 0;
}
