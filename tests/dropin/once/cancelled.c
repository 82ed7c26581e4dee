// If the thread in the function of pthread_once is cancelled, another one runs it again.
#include "../check.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int began, ended;

static void initialise(void) {
    if (__atomic_add_fetch(&began, 1, __ATOMIC_RELEASE) == 1) {
        for (;;) pause_ms(1000);
    }
    ended++;
}

static void *run(UNUSED void *argument) {
    EQUAL(pthread_once(&once, initialise), 0);
    EQUAL(ended, 1);
    return NULL;
}

int main(void) {
    pthread_t cancelled = start(run, NULL), others[4];
    while (__atomic_load_n(&began, __ATOMIC_ACQUIRE) == 0) pause_ms(1);
    for (int i = 0; i < 4; i++) others[i] = start(run, NULL);
    EQUAL(pthread_cancel(cancelled), 0);
    CHECK(join(cancelled) == PTHREAD_CANCELED);
    for (int i = 0; i < 4; i++) join(others[i]);
    EQUAL(began, 2);
    EQUAL(ended, 1);
    return 0;
}
