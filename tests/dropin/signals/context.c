// A handler with SA_SIGINFO sees the thread's stack pointer and mask in its context, and the sender
// and value, whether the thread computes or is suspended.
#include "../check.h"
#include <semaphore.h>
#include <signal.h>
#include <ucontext.h>

enum { SIGNALS = 30 };
static __thread char *low, *high;
static sem_t handled;
static int finish;

static void handle(int signal, siginfo_t *info, void *argument) {
    ucontext_t *context = argument;
    int kept = errno;
    EQUAL(signal, SIGRTMIN + 2);
    EQUAL(info->si_signo, SIGRTMIN + 2);
    EQUAL(info->si_code, SI_QUEUE);
    EQUAL(info->si_pid, getpid());
    EQUAL(info->si_value.sival_int, 4711);
#ifdef __x86_64__
    char *stack = (char *)context->uc_mcontext.gregs[REG_RSP];
    CHECK(stack > low && stack < high);
#endif
    EQUAL(sigismember(&context->uc_sigmask, SIGUSR2), 1);
    EQUAL(sigismember(&context->uc_sigmask, SIGRTMIN + 2), 0);
    sigset_t now;
    EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    EQUAL(sigismember(&now, SIGRTMIN + 2), 1);
    EQUAL(sigismember(&now, SIGUSR1), 1);
    EQUAL(sigismember(&now, SIGTERM), 0);
    sem_post(&handled);
    errno = kept;
}

static void *run(void *argument) {
    pthread_attr_t attributes;
    size_t size;
    EQUAL(pthread_getattr_np(pthread_self(), &attributes), 0);
    EQUAL(pthread_attr_getstack(&attributes, (void **)&low, &size), 0);
    high = low + size;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    EQUAL(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    while (!__atomic_load_n(&finish, __ATOMIC_ACQUIRE)) {
        if (argument) pause_ms(20);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    MUST(sigaction(SIGRTMIN + 2, &action, NULL));
    MUST(sem_init(&handled, 0, 0));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN + 2);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    pthread_t threads[] = {start(run, NULL), start(run, &handled)};
    for (int i = 0; i < SIGNALS; i++) {
        EQUAL(pthread_sigqueue(threads[i % 2], SIGRTMIN + 2, (union sigval){4711}), 0);
        MUST(sem_wait(&handled));
    }
    __atomic_store_n(&finish, 1, __ATOMIC_RELEASE);
    join(threads[0]);
    join(threads[1]);
    return 0;
}
