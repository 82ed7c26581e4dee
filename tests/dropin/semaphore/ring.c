// A token goes around rings of 2, 10 and 100 threads: one semaphore each. Argument: hops.
#include "../check.h"
#include <semaphore.h>

enum { MOST = 100 };
static sem_t semaphores[MOST];
static int members, holder;
static long rounds;

static void *run(void *argument) {
    int self = (int)(long)argument, next = (self + 1) % members;
    for (long round = 0; round < rounds; round++) {
        MUST(sem_wait(&semaphores[self]));
        EQUAL(holder, self);
        holder = next;
        MUST(sem_post(&semaphores[next]));
    }
    return NULL;
}

int main(int argc, char **argv) {
    int sizes[] = {2, 10, MOST};
    long hops = count(argc, argv, 20000);
    for (int i = 0; i < 3; i++) {
        pthread_t threads[MOST];
        members = sizes[i], rounds = hops / members, holder = 0;
        for (int j = 0; j < members; j++) MUST(sem_init(&semaphores[j], 0, j == 0));
        for (long j = 0; j < members; j++) threads[j] = start(run, (void *)j);
        for (int j = 0; j < members; j++) join(threads[j]);
        int left;
        MUST(sem_getvalue(&semaphores[0], &left));
        EQUAL(left, 1);
    }
    return 0;
}
