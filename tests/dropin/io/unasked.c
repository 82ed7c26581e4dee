// Calls that block in the kernel without readiness (file locks, FIFOs, children, System V objects,
// a direct system call) hold up no other thread, though there are more of them than CPUs.
#include "../check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { LOCK, RECORD, FIFO, CHILD, MESSAGE, SEMAPHORE, DIRECT, CALLS };
static char name[] = "dropin-XXXXXX", fifo[] = "dropin-fifo";
static int ends[2], queue, set, began[CALLS], finished[CALLS];
static pid_t child;

static void block(long call) {
    int file = (int)MUST(open(name, O_RDWR)), status;
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct { long kind; char byte; } message;
    char byte;
    if (call == LOCK) MUST(flock(file, LOCK_EX));
    if (call == RECORD) MUST(fcntl(file, F_OFD_SETLKW, &record));
    if (call == FIFO) MUST(close((int)MUST(open(fifo, O_RDONLY))));
    if (call == CHILD) EQUAL(waitpid(child, &status, 0), child);
    if (call == MESSAGE) MUST(msgrcv(queue, &message, 1, 0, 0));
    if (call == SEMAPHORE) MUST(semop(set, &(struct sembuf){0, -1, 0}, 1));
    if (call == DIRECT) EQUAL(syscall(SYS_read, ends[0], &byte, 1), 1);
    MUST(close(file));
}

static void *run(void *argument) {
    long call = (long)argument;
    __atomic_store_n(&began[call], 1, __ATOMIC_RELEASE);
    block(call);
    __atomic_store_n(&finished[call], 1, __ATOMIC_RELEASE);
    return NULL;
}

// Runs while all those calls block: they may take no CPU away from the process.
static void *works(UNUSED void *argument) {
    for (int i = 0; i < 1000; i++) EQUAL(sched_yield(), 0);
    pause_ms(1);
    return NULL;
}

int main(void) {
    MUST(close((int)MUST(mkstemp(name))));
    MUST(mkfifo(fifo, 0600));
    MUST(pipe(ends));
    queue = msgget(IPC_PRIVATE, 0600);
    set = semget(IPC_PRIVATE, 1, 0600);
    if (queue == -1 || set == -1) SKIP("no System V objects: errno %d", errno);
    int go[2], file = (int)MUST(open(name, O_RDWR)), other = (int)MUST(open(name, O_RDWR));
    MUST(pipe(go));
    if ((child = MUST(fork())) == 0) return read(go[0], name, 1) == 1 ? 0 : 1;
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct { long kind; char byte; } message = {1, 'x'};
    MUST(flock(file, LOCK_EX));
    MUST(fcntl(other, F_OFD_SETLKW, &record));
    pthread_t threads[CALLS], working[4];
    for (long i = 0; i < CALLS; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < CALLS; i++) {
        while (!__atomic_load_n(&began[i], __ATOMIC_ACQUIRE)) pause_ms(0);
    }
    for (int i = 0; i < 4; i++) working[i] = start(works, NULL);
    for (int i = 0; i < 4; i++) join(working[i]);
    for (int i = 0; i < CALLS; i++) EQUAL(__atomic_load_n(&finished[i], __ATOMIC_ACQUIRE), 0);
    MUST(flock(file, LOCK_UN));
    MUST(close(other));
    MUST(close((int)MUST(open(fifo, O_WRONLY))));
    EQUAL(write(go[1], "x", 1), 1);
    MUST(msgsnd(queue, &message, 1, 0));
    MUST(semop(set, &(struct sembuf){0, 1, 0}, 1));
    EQUAL(write(ends[1], "x", 1), 1);
    for (int i = 0; i < CALLS; i++) join(threads[i]);
    MUST(msgctl(queue, IPC_RMID, NULL));
    MUST(semctl(set, 0, IPC_RMID));
    MUST(unlink(name));
    MUST(unlink(fifo));
    return 0;
}
