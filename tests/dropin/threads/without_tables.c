// A thread is joined that ends below a function without a table for unwinding: by pthread_exit, in
// a destructor as well, or cancelled. Its destructors run.
#include "../check.h"
#include <semaphore.h>

static pthread_key_t key;
static sem_t never;
static int destroyed;

static void leave(void *value) { pthread_exit(value); }
static void await_cancel(UNUSED void *argument) { sem_wait(&never); }

// Calls a function. The assembler writes no table for it.
void call_bare(void (*function)(void *), void *argument);
__asm__(".text\n"
        "call_bare: sub $8, %rsp\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  call *%rax\n"
        "  add $8, %rsp\n"
        "  ret\n");

static void destroy(void *value) {
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
    if (value == &never) call_bare(leave, &key);
}

static void *exits(void *argument) {
    EQUAL(pthread_setspecific(key, argument), 0);
    call_bare(leave, argument);
    return NULL;
}

static void *exits_late(UNUSED void *argument) {
    EQUAL(pthread_setspecific(key, &never), 0);
    return &destroyed;
}

static void *waits(void *argument) {
    EQUAL(pthread_setspecific(key, argument), 0);
    call_bare(await_cancel, NULL);
    return NULL;
}

int main(void) {
    EQUAL(pthread_key_create(&key, destroy), 0);
    MUST(sem_init(&never, 0, 0));
    for (int round = 0; round < 20; round++) {
        CHECK(join(start(exits, &key)) == &key);
        CHECK(join(start(exits_late, NULL)) == &key);
        pthread_t thread = start(waits, &key);
        if (round % 2) pause_ms(1);
        EQUAL(pthread_cancel(thread), 0);
        CHECK(join(thread) == PTHREAD_CANCELED);
        EQUAL(destroyed, 3 * (round + 1));
    }
    return 0;
}
