// Threads wait for good for one object of each kind that nothing sets, and for a lock of a thread
// that has ended.
#include "../check.h"
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/syscall.h>

static pthread_mutex_t lost = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static sem_t semaphore, runs;
static int word;

static void *lose(UNUSED void *argument) {
    // A thread with a name has an id that no later thread gets.
    pthread_setname_np(pthread_self(), "loses");
    EQUAL(pthread_mutex_lock(&lost), 0);
    return NULL;
}

static void hang(void) {
    MUST(sem_post(&runs));
    pthread_barrier_wait(&barrier);
}

static void *wait_for(void *argument) {
    switch ((long)argument) {
        case 0: pthread_mutex_lock(&lost); break;
        case 1: pthread_mutex_lock(&lock), pthread_cond_wait(&condition, &lock); break;
        case 2: pthread_rwlock_rdlock(&rwlock); break;
        case 3:
        case 4: pthread_once(&once, hang); break;
        case 5: sem_wait(&semaphore); break;
        case 6: syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL); break;
    }
    FAIL("wait %ld has ended", (long)argument);
}

int main(void) {
    EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
    MUST(sem_init(&semaphore, 0, 0));
    MUST(sem_init(&runs, 0, 0));
    EQUAL(pthread_rwlock_wrlock(&rwlock), 0);
    join(start(lose, NULL));
    for (long i = 0; i < 7; i++) {
        start(wait_for, (void *)i);
        if (i == 3) MUST(sem_wait(&runs));
    }
    for (int i = 0; i < 2; i++) start(wait_for, (void *)5);
    sem_wait(&semaphore);
    return 1;
}
