// vfork, posix_spawn, system and popen work from threads; a program that they start has the signal
// mask and actions of the calling thread, and the same environment.
#include "../check.h"
#include <signal.h>
#include <spawn.h>

enum { THREADS = 4, ROUNDS = 5 };
extern char **environ;

// In the started program: the mask holds SIGUSR1 alone, and the variable is the one that was set.
static int started(void) {
    sigset_t set;
    EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
    for (int signal = 1; signal < SIGRTMIN; signal++) {
        EQUAL(sigismember(&set, signal) == 1, signal == SIGUSR1);
    }
    const char *value = getenv("DROPIN_TEST");
    CHECK(value && strcmp(value, "value") == 0);
    struct sigaction action;
    MUST(sigaction(SIGUSR2, NULL, &action));
    CHECK(action.sa_handler == SIG_DFL);
    return 5;
}

static void ended_with_5(pid_t child) {
    int status = status_of(child);
    CHECK(WIFEXITED(status));
    EQUAL(WEXITSTATUS(status), 5);
}

static void *run(void *own) {
    char *arguments[] = {own, (char *)"started", NULL};
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child;
        EQUAL(posix_spawn(&child, own, NULL, NULL, arguments, environ), 0);
        ended_with_5(child);
        EQUAL(posix_spawnp(&child, "/nonexistent/program", NULL, NULL, arguments, environ), ENOENT);
        child = vfork();
        if (child == 0) {
            execv(own, arguments);
            _exit(1);
        }
        ended_with_5(MUST(child));
        EQUAL(WEXITSTATUS(system("exit 3")), 3);
        FILE *output = popen("echo text", "r");
        char line[16] = "";
        CHECK(output && fgets(line, sizeof line, output));
        CHECK(strcmp(line, "text\n") == 0);
        EQUAL(pclose(output), 0);
    }
    return NULL;
}

static void handle(UNUSED int signal) {}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "started") == 0) return started();
    static char own[4096];
    MUST(readlink("/proc/self/exe", own, sizeof own - 1));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    EQUAL(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR2, &action, NULL));
    MUST(setenv("DROPIN_TEST", "value", 1));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(run, own);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    return 0;
}
