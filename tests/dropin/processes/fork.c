// fork from a thread: the child has that thread alone, with its thread-locals, and can create
// threads, join them and fork again; the parent's threads go on.
#include "../check.h"

static __thread long local;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int finish;

static void await(pid_t child) {
    EQUAL(status_of(child), 0);
}

static void *waits(UNUSED void *argument) {
    EQUAL(pthread_mutex_lock(&mutex), 0);
    while (!finish) EQUAL(pthread_cond_wait(&cond, &mutex), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

static void *sleeps(void *argument) {
    pause_ms(1);
    return argument;
}

static void *grandchild(UNUSED void *argument) {
    EQUAL(local, 0);
    pid_t child = MUST(fork());
    if (child == 0) {
        EQUAL(join(start(sleeps, &local)), &local);
        _exit(0);
    }
    await(child);
    return NULL;
}

static void *forks(void *argument) {
    local = (long)argument;
    for (int round = 0; round < 3; round++) {
        pthread_t self = pthread_self();
        pid_t child = MUST(fork());
        if (child == 0) {
            EQUAL(local, argument);
            CHECK(pthread_equal(self, pthread_self()));
            EQUAL(gettid(), getpid());
            run_threads(4, grandchild);
            EQUAL(local, argument);
            _exit(0);
        }
        await(child);
        pause_ms(1);
    }
    EQUAL(local, argument);
    return NULL;
}

int main(void) {
    pthread_t waiting[4], forking[2];
    for (int i = 0; i < 4; i++) waiting[i] = start(waits, NULL);
    for (long i = 0; i < 2; i++) forking[i] = start(forks, (void *)(i + 1));
    for (int i = 0; i < 2; i++) join(forking[i]);
    forks((void *)7);
    EQUAL(pthread_mutex_lock(&mutex), 0);
    finish = 1;
    EQUAL(pthread_cond_broadcast(&cond), 0);
    EQUAL(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < 4; i++) join(waiting[i]);
    return 0;
}
