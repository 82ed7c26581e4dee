// A thread that overflows its stack gets SIGSEGV at an address near its guard, on its alternate
// stack, and may leave the handler by siglongjmp and go on.
#include "../check.h"
#include <setjmp.h>
#include <signal.h>

enum { THREADS = 4, ROUNDS = 5, SIZE = 256 << 10 };
static __thread sigjmp_buf back;
static __thread char alternate[32768];
static __thread char *low;

static void handle(UNUSED int signal, siginfo_t *info, UNUSED void *context) {
    char here, *address = info->si_addr;
    CHECK(&here > alternate && &here < alternate + sizeof alternate);
    CHECK(address < low + 65536 && address > low - 65536);
    siglongjmp(back, 1);
}

__attribute__((noinline)) static int recurse(int depth) {
    volatile char frame[1024];
    frame[depth % 1024] = (char)depth;
    return depth < 0 ? 0 : recurse(depth + 1) + frame[depth % 1024];
}

static void *run(UNUSED void *argument) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    MUST(sigaltstack(&stack, NULL));
    pthread_attr_t attributes;
    size_t size;
    EQUAL(pthread_getattr_np(pthread_self(), &attributes), 0);
    EQUAL(pthread_attr_getstack(&attributes, (void **)&low, &size), 0);
    for (volatile int round = 0; round < ROUNDS; round++) {
        if (sigsetjmp(back, 1) == 0) FAIL("no overflow: %d", recurse(0));
        pause_ms(1);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    MUST(sigaction(SIGSEGV, &action, NULL));
    pthread_attr_t attributes;
    EQUAL(pthread_attr_init(&attributes), 0);
    EQUAL(pthread_attr_setstacksize(&attributes, SIZE), 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        EQUAL(pthread_create(&threads[i], &attributes, run, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
