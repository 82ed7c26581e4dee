// aio_read and aio_write, which use threads of the C library's own, complete, and notify by a
// thread, by aio_suspend and by polling.
#include "../check.h"
#include <aio.h>
#include <semaphore.h>
#include <signal.h>

enum { REQUESTS = 16, SIZE = 1000 };
static sem_t notified;
static char blocks[REQUESTS][SIZE], back[REQUESTS][SIZE];

static void notify(UNUSED union sigval value) { MUST(sem_post(&notified)); }

static void *run(UNUSED void *argument) {
    char name[] = "dropin-XXXXXX";
    int file = (int)MUST(mkstemp(name));
    MUST(unlink(name));
    static struct aiocb requests[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        memset(blocks[i], 'a' + i, SIZE);
        requests[i] = (struct aiocb){.aio_fildes = file, .aio_buf = blocks[i], .aio_nbytes = SIZE,
                                     .aio_offset = i * SIZE};
        requests[i].aio_sigevent.sigev_notify = SIGEV_THREAD;
        requests[i].aio_sigevent.sigev_notify_function = notify;
        MUST(aio_write(&requests[i]));
    }
    for (int i = 0; i < REQUESTS; i++) MUST(sem_wait(&notified));
    for (int i = 0; i < REQUESTS; i++) {
        EQUAL(aio_error(&requests[i]), 0);
        EQUAL(aio_return(&requests[i]), SIZE);
        requests[i].aio_buf = back[i];
        requests[i].aio_sigevent.sigev_notify = SIGEV_NONE;
        MUST(aio_read(&requests[i]));
    }
    for (int i = 0; i < REQUESTS; i++) {
        const struct aiocb *one[] = {&requests[i]};
        while (aio_error(one[0]) == EINPROGRESS) MUST(aio_suspend(one, 1, NULL));
        EQUAL(aio_return(&requests[i]), SIZE);
        EQUAL(memcmp(blocks[i], back[i], SIZE), 0);
    }
    MUST(close(file));
    return NULL;
}

int main(void) {
    MUST(sem_init(&notified, 0, 0));
    join(start(run, NULL));
    run(NULL);
    return 0;
}
