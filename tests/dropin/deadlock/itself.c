// A thread that locks a normal mutex again waits for itself for good.
#include "../check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *run(UNUSED void *argument) {
    pthread_setname_np(pthread_self(), "itself");
    EQUAL(pthread_mutex_lock(&lock), 0);
    pthread_mutex_lock(&lock);
    FAIL("a lock that is never free was taken");
}

int main(void) {
    join(start(run, NULL));
    return 1;
}
