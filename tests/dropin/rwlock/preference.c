// While a reader holds the lock and a writer waits, another reader gets in with the reader's
// preference, and waits behind the writer with the writer's nonrecursive one.
#include "../check.h"

static pthread_rwlock_t lock;
static int written;

static void *write_once(UNUSED void *argument) {
    EQUAL(pthread_rwlock_wrlock(&lock), 0);
    written = 1;
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

static void *read_while_writer_waits(UNUSED void *argument) {
    EQUAL(pthread_rwlock_rdlock(&lock), 0);
    EQUAL(written, 0);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

static void *read_after_writer(UNUSED void *argument) {
    EQUAL(pthread_rwlock_rdlock(&lock), 0);
    EQUAL(written, 1);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

static void set_up(int kind) {
    pthread_rwlockattr_t attributes;
    EQUAL(pthread_rwlockattr_init(&attributes), 0);
    EQUAL(pthread_rwlockattr_setkind_np(&attributes, kind), 0);
    EQUAL(pthread_rwlock_init(&lock, &attributes), 0);
    written = 0;
}

int main(void) {
    set_up(PTHREAD_RWLOCK_PREFER_READER_NP);
    EQUAL(pthread_rwlock_rdlock(&lock), 0);
    pthread_t writer = start(write_once, NULL);
    for (int i = 0; i < 20; i++) join(start(read_while_writer_waits, NULL));
    EQUAL(pthread_rwlock_rdlock(&lock), 0);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    join(writer);
    EQUAL(pthread_rwlock_destroy(&lock), 0);

    set_up(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    EQUAL(pthread_rwlock_rdlock(&lock), 0);
    writer = start(write_once, NULL);
    // Until the writer waits, readers still get in.
    while (pthread_rwlock_tryrdlock(&lock) == 0) {
        EQUAL(pthread_rwlock_unlock(&lock), 0);
        pause_ms(1);
    }
    pthread_t reader = start(read_after_writer, NULL);
    EQUAL(pthread_rwlock_unlock(&lock), 0);
    join(reader);
    join(writer);
    EQUAL(written, 1);
    return 0;
}
