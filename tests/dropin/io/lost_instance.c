// Threads that wait for data get it though the program closes, by instructions of its own, all
// instances of epoll that it finds; and so do threads that wait later.
#include "../check.h"
#include "../instruction.h"
#include <dirent.h>

enum { READERS = 4, ROUNDS = 3 };
static int pipes[READERS][2], received[READERS], is_over;

static void *reading(void *reader) {
    int *own = pipes[(long)reader];
    for (int round = 0; round < ROUNDS; round++) {
        char byte;
        EQUAL(read(own[0], &byte, 1), 1);
        __atomic_add_fetch(&received[(long)reader], 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void *computing(UNUSED void *argument) {
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) sched_yield();
    return NULL;
}

static void close_instances(void) {
    DIR *all = opendir("/proc/self/fd");
    CHECK(all != NULL);
    for (struct dirent *one; (one = readdir(all)) != NULL;) {
        char path[300], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%s", one->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = 0;
        if (strcmp(target, "anon_inode:[eventpoll]") == 0) EQUAL(call(SYS_close, atoi(one->d_name), 0, 0, 0), 0);
    }
    closedir(all);
}

int main(void) {
    pthread_t readers[READERS], computes;
    for (long i = 0; i < READERS; i++) {
        MUST(pipe(pipes[i]));
        readers[i] = start(reading, (void *)i);
    }
    computes = start(computing, NULL);
    pause_ms(20);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 1) close_instances();
        for (int i = 0; i < READERS; i++) EQUAL(write(pipes[i][1], "x", 1), 1);
        for (int i = 0; i < READERS; i++) {
            while (__atomic_load_n(&received[i], __ATOMIC_SEQ_CST) <= round) pause_ms(1);
        }
        pause_ms(5);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < READERS; i++) join(readers[i]);
    join(computes);
    return 0;
}
