// Kernel threads and processes of a raw clone() from a thread run, and hand over by a word of
// memory and by their exit, although the C library does not know them.
#include "../check.h"
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

enum { ROUNDS = 10, SIZE = 65536 };
struct task {
    int ran;
    pid_t id;
};

// No call of the C library, since this shares the thread-locals of its creator.
static int as_thread(void *argument) {
    struct task *task = argument;
    __atomic_store_n(&task->ran, 1, __ATOMIC_RELEASE);
    return 0;
}

static int as_process(void *argument) {
    ((struct task *)argument)->ran++;
    return 9;
}

static void *run(void *argument) {
    int own_task = (int)(long)argument;
    char *stack = malloc(SIZE);
    CHECK(stack);
    void *top = (void *)((unsigned long)(stack + SIZE) & ~15ul);
    for (int round = 0; round < ROUNDS; round++) {
        struct task task = {0, 1};
        if (own_task) {
            MUST(clone(as_thread, top,
                       CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                           CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
                       &task, NULL, NULL, &task.id));
            // The kernel clears the id at its end, when the stack is free again.
            for (pid_t id; (id = __atomic_load_n(&task.id, __ATOMIC_ACQUIRE)) != 0;) {
                if (syscall(SYS_futex, &task.id, FUTEX_WAIT, id, NULL, NULL, 0) == -1) {
                    CHECK(errno == EAGAIN || errno == EINTR);
                }
            }
        } else {
            pid_t child = MUST(clone(as_process, top, CLONE_VM | CLONE_VFORK | SIGCHLD, &task));
            int status = status_of(child);
            EQUAL(WEXITSTATUS(status), 9);
            child = MUST(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0));
            if (child == 0) _exit(task.ran + 1);
            EQUAL(waitpid(child, &status, 0), child);
            EQUAL(WEXITSTATUS(status), 2);
        }
        EQUAL(__atomic_load_n(&task.ran, __ATOMIC_ACQUIRE), 1);
    }
    free(stack);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) threads[i] = start(run, (void *)(i % 2));
    for (int i = 0; i < 4; i++) join(threads[i]);
    return 0;
}
