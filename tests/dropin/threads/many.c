// So many threads exist at once, each suspended in a barrier of all. Argument: threads.
#include "../check.h"

static pthread_barrier_t barrier;
static int serial;

static void *run(void *argument) {
    for (int round = 0; round < 2; round++) {
        int result = pthread_barrier_wait(&barrier);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD) {
            __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED);
        } else {
            EQUAL(result, 0);
        }
    }
    return argument;
}

int main(int argc, char **argv) {
    long threads = count(argc, argv, 500);
    pthread_t *ids = calloc(threads, sizeof *ids);
    pthread_attr_t attributes;
    CHECK(ids);
    EQUAL(pthread_attr_init(&attributes), 0);
    EQUAL(pthread_attr_setstacksize(&attributes, 65536), 0);
    EQUAL(pthread_barrier_init(&barrier, NULL, threads), 0);
    for (long i = 0; i < threads; i++) {
        int result = pthread_create(&ids[i], &attributes, run, (void *)i);
        if (result == EAGAIN) SKIP("this machine allows %ld of %ld threads", i, threads);
        EQUAL(result, 0);
    }
    for (long i = 0; i < threads; i++) EQUAL(join(ids[i]), i);
    EQUAL(serial, 2);
    return 0;
}
