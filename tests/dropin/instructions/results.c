// Calls by an instruction of the program have the results, errors and effects of the kernel's.
#include "../check.h"
#include "../instruction.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void *run(UNUSED void *argument) {
    EQUAL(call(SYS_getpid, 0, 0, 0, 0), getpid());
    EQUAL(call(SYS_gettid, 0, 0, 0, 0), gettid());
    errno = 77;
    EQUAL(call(SYS_read, -1, 0, 0, 0), -EBADF);
    EQUAL(call(SYS_dup, -1, 0, 0, 0), -EBADF);
    EQUAL(call(5000, 0, 0, 0, 0), -ENOSYS);
    int word = 1;
    EQUAL(futex(&word, FUTEX_WAIT_PRIVATE, 0), -EAGAIN);
    struct timespec millisecond = {0, 1000000};
    EQUAL(call(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 1, (long)&millisecond), -ETIMEDOUT);
    EQUAL(futex(&word, FUTEX_WAKE_PRIVATE, 1), 0);
    EQUAL(call(SYS_nanosleep, (long)&millisecond, 0, 0, 0), 0);
    EQUAL(call(SYS_sched_yield, 0, 0, 0, 0), 0);
    EQUAL(errno, 77);
    char *page = (char *)call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    // Without a descriptor the kernel takes the words that are there.
    if ((long)page > 0) {
        page[0] = 1;
        EQUAL(call(SYS_munmap, (long)page, 4096, 0, 0), 0);
    }
    int pipes[2];
    char byte = 'x';
    EQUAL(call(SYS_pipe2, (long)pipes, 0, 0, 0), 0);
    long child = call(SYS_fork, 0, 0, 0, 0);
    if (child == 0) {
        call(SYS_write, pipes[1], (long)&byte, 1, 0);
        call(SYS_exit_group, 7, 0, 0, 0);
    }
    CHECK(child > 0);
    EQUAL(call(SYS_read, pipes[0], (long)&byte, 1, 0), 1);
    int status;
    EQUAL(call(SYS_wait4, child, (long)&status, 0, 0), child);
    EQUAL(WEXITSTATUS(status), 7);
    EQUAL(call(SYS_close, pipes[0], 0, 0, 0), 0);
    EQUAL(call(SYS_close, pipes[1], 0, 0, 0), 0);
    return NULL;
}

// The thread blocks its kernel thread, the writer's turn comes all the same.
static int pipes[2];

static void *reads(UNUSED void *argument) {
    char byte;
    EQUAL(call(SYS_read, pipes[0], (long)&byte, 1, 0), 1);
    EQUAL(byte, 'y');
    return NULL;
}

int main(void) {
    run_threads(4, run);
    run(NULL);
    MUST(pipe(pipes));
    pthread_t reader = start(reads, NULL);
    pause_ms(2);
    char byte = 'y';
    EQUAL(write(pipes[1], &byte, 1), 1);
    join(reader);
    return 0;
}
