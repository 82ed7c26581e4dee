// If a process forks while a thread is in the function of pthread_once, the child runs it again.
#include "../check.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int began, go_on, ended;

static void initialise(void) {
    __atomic_store_n(&began, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE)) pause_ms(1);
    ended++;
}

static void *run(UNUSED void *argument) {
    EQUAL(pthread_once(&once, initialise), 0);
    EQUAL(ended, 1);
    return NULL;
}

int main(void) {
    pthread_t thread = start(run, NULL);
    while (!__atomic_load_n(&began, __ATOMIC_ACQUIRE)) pause_ms(1);
    pid_t child = MUST(fork());
    __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
    run(NULL);
    if (child == 0) _exit(0);
    join(thread);
    EQUAL(status_of(child), 0);
    return 0;
}
