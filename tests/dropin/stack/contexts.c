// Coroutines of makecontext and swapcontext inside threads suspend and go on, in the thread that
// runs them, with that thread's thread-locals, also if another thread resumes them.
#include "../check.h"
#include <sched.h>
#include <ucontext.h>

enum { THREADS = 6, STEPS = 30, SIZE = 65536 };
struct coroutine {
    ucontext_t own, *resumer;
    int steps, finished;
    char stack[SIZE];
};
static __thread long self = -1;
static __thread struct coroutine *current;
static struct coroutine coroutines[THREADS];
static pthread_barrier_t barrier;

// Not inlined: the address of a thread-local must not be kept over a switch of threads.
__attribute__((noinline)) static struct coroutine *here(void) { return current; }
__attribute__((noinline)) static long this_thread(void) { return self; }

static void body(void) {
    for (int step = 0; step < STEPS; step++) {
        long runner = this_thread();
        CHECK(runner >= 0);
        if (step % 3 == 0) sched_yield();
        if (step % 10 == 1) pause_ms(1);
        EQUAL(this_thread(), runner);
        struct coroutine *coroutine = here();
        coroutine->steps++;
        swapcontext(&coroutine->own, coroutine->resumer);
    }
    struct coroutine *coroutine = here();
    coroutine->finished = 1;
    setcontext(coroutine->resumer);
}

static void *run(void *argument) {
    self = (long)argument;
    for (long step = 0; step <= STEPS; step++) {
        // Each step of a coroutine is made by another thread.
        struct coroutine *coroutine = &coroutines[(self + step) % THREADS];
        ucontext_t resumer;
        coroutine->resumer = &resumer;
        current = coroutine;
        swapcontext(&resumer, &coroutine->own);
        pthread_barrier_wait(&barrier);
    }
    EQUAL(self, argument);
    return NULL;
}

int main(void) {
    EQUAL(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        MUST(getcontext(&coroutines[i].own));
        coroutines[i].own.uc_stack.ss_sp = coroutines[i].stack;
        coroutines[i].own.uc_stack.ss_size = SIZE;
        makecontext(&coroutines[i].own, body, 0);
    }
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    for (int i = 0; i < THREADS; i++) {
        EQUAL(coroutines[i].steps, STEPS);
        EQUAL(coroutines[i].finished, 1);
    }
    return 0;
}
