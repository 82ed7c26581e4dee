// SIGSEGV, SIGFPE and SIGILL of an instruction run the handler in place, in the thread at fault,
// with its registers, on its alternate stack; siglongjmp leaves it, and sigreturn goes on.
#include "../check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { THREADS = 6, ROUNDS = 50 };
static __thread sigjmp_buf back;
static __thread char *page;
static __thread char stack[32768];
static __thread int repaired;
static volatile int two = 2, zero;

static void handle(int signal, siginfo_t *info, UNUSED void *context) {
    char here;
    CHECK(&here > stack && &here < stack + sizeof stack);
    if (signal == SIGSEGV && info->si_addr == page) {
        MUST(mprotect(page, 4096, PROT_READ | PROT_WRITE));
        repaired++;
        return;
    }
    siglongjmp(back, signal);
}

static void *run(UNUSED void *argument) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    MUST(sigaltstack(&alternate, NULL));
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (volatile int round = 0; round < ROUNDS; round++) {
        MUST(mprotect(page, 4096, PROT_READ));
        *(volatile char *)page = (char)round;
        EQUAL(*page, (char)round);
        EQUAL(repaired, round + 1);
        if (round % 10 == 0) pause_ms(1);
        int jumped = sigsetjmp(back, 1);
        if (jumped == 0) {
            if (round % 3 == 0) *(volatile char *)16 = 1;
            if (round % 3 == 1) EQUAL(two / zero, 0);
            if (round % 3 == 2) __asm__ volatile("ud2");
            FAIL("no fault in round %d", round);
        }
        EQUAL(jumped, round % 3 == 0 ? SIGSEGV : round % 3 == 1 ? SIGFPE : SIGILL);
    }
    MUST(munmap(page, 4096));
    return NULL;
}

int main(void) {
#ifndef __x86_64__
    SKIP("the faults are instructions of x86-64");
#endif
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    MUST(sigaction(SIGSEGV, &action, NULL));
    MUST(sigaction(SIGFPE, &action, NULL));
    MUST(sigaction(SIGILL, &action, NULL));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, NULL);
    run(NULL);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
