// A rwlock lets readers in together and a writer alone; with each preference all get their turns.
#include "../check.h"
#include <sched.h>

enum { READERS = 6, WRITERS = 2, ROUNDS = 500 };
static pthread_rwlock_t lock;
static int readers, writers, most;
static long total;

static void *read_often(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_rwlock_rdlock(&lock), 0);
        int now = __atomic_add_fetch(&readers, 1, __ATOMIC_RELAXED);
        if (now > __atomic_load_n(&most, __ATOMIC_RELAXED)) {
            __atomic_store_n(&most, now, __ATOMIC_RELAXED);
        }
        EQUAL(__atomic_load_n(&writers, __ATOMIC_RELAXED), 0);
        if (round % 8 == 0) sched_yield();
        __atomic_sub_fetch(&readers, 1, __ATOMIC_RELAXED);
        EQUAL(pthread_rwlock_unlock(&lock), 0);
    }
    return NULL;
}

static void *write_often(UNUSED void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(pthread_rwlock_wrlock(&lock), 0);
        EQUAL(__atomic_add_fetch(&writers, 1, __ATOMIC_RELAXED), 1);
        EQUAL(__atomic_load_n(&readers, __ATOMIC_RELAXED), 0);
        long seen = total;
        if (round % 8 == 0) sched_yield();
        total = seen + 1;
        __atomic_sub_fetch(&writers, 1, __ATOMIC_RELAXED);
        EQUAL(pthread_rwlock_unlock(&lock), 0);
    }
    return NULL;
}

int main(void) {
    int kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
                   PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};
    for (int i = 0; i < 3; i++) {
        pthread_rwlockattr_t attributes;
        pthread_t threads[READERS + WRITERS];
        EQUAL(pthread_rwlockattr_init(&attributes), 0);
        EQUAL(pthread_rwlockattr_setkind_np(&attributes, kinds[i]), 0);
        EQUAL(pthread_rwlock_init(&lock, &attributes), 0);
        total = 0;
        for (int j = 0; j < READERS + WRITERS; j++) {
            threads[j] = start(j < WRITERS ? write_often : read_often, NULL);
        }
        for (int j = 0; j < READERS + WRITERS; j++) join(threads[j]);
        EQUAL(total, WRITERS * ROUNDS);
        EQUAL(pthread_rwlock_destroy(&lock), 0);
    }
    return 0;
}
