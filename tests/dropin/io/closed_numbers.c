// Threads sleep and wait though the program closes all numbers of descriptors that it does not
// know, and the numbers that it gets are the lowest.
#include "../check.h"
#include <fcntl.h>
#include <semaphore.h>

static int ticks, is_over;
static sem_t never;

static void *ticking(UNUSED void *argument) {
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        struct timespec soon = in_ms(CLOCK_REALTIME, 1);
        if (ticks % 2) {
            pause_ms(1);
        } else {
            EQUAL(sem_timedwait(&never, &soon), -1);
            EQUAL(errno, ETIMEDOUT);
        }
        __atomic_add_fetch(&ticks, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void await_ticks(void) {
    int before = __atomic_load_n(&ticks, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&ticks, __ATOMIC_SEQ_CST) < before + 5) pause_ms(1);
}

int main(void) {
    MUST(sem_init(&never, 0, 0));
    int lowest = MUST(open("/dev/null", O_RDONLY));
    MUST(close(lowest));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) threads[i] = start(ticking, NULL);
    await_ticks();
    EQUAL(open("/dev/null", O_RDONLY), lowest);
    for (int number = lowest; number < 3000; number++) close(number);
    await_ticks();
    EQUAL(close_range(lowest, ~0U, 0), 0);
    await_ticks();
    closefrom(lowest);
    await_ticks();
    EQUAL(open("/dev/null", O_RDONLY), lowest);
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++) join(threads[i]);
    return 0;
}
