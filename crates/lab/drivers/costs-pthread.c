// Costs of single calls of POSIX threads, measured in a thread.
//
// Arguments: item rounds limit_ns. Prints "elapsed_ns rounds". The first round is not timed.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 64, ROUNDS_PER_LOOK = 256 };

struct item {
    const char *name;
    // A round.
    void (*run)(void);
};

static const struct item *item;
static uint64_t rounds, limit;

static void die(const char *line) {
    fprintf(stderr, "%s\n", line);
    _exit(2);
}

static void must(int result, const char *what) {
    if (result != 0)
        die(what);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t locked;

static void mutex_pairs(void) {
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_lock(&mutex);
        locked++;
        pthread_mutex_unlock(&mutex);
    }
}

static sem_t semaphore;

static void semaphore_pairs(void) {
    for (int i = 0; i < PAIRS; i++) {
        sem_post(&semaphore);
        sem_wait(&semaphore);
    }
}

static char token;

static void *end(void *argument) {
    (void)argument;
    return &token;
}

static void create_join(void) {
    pthread_t thread;
    void *value;
    must(pthread_create(&thread, NULL, end, NULL), "pthread_create");
    must(pthread_join(thread, &value), "pthread_join");
    if (value != &token)
        die("a thread has not run");
}

// A call that concerns the kernel thread.
static void errand(void) {
    errno = 0;
    if (getpriority(PRIO_PROCESS, 0) == -1)
        must(errno, "getpriority");
}

static const struct item ITEMS[] = {
    {"mutex", mutex_pairs},
    {"semaphore", semaphore_pairs},
    {"create-join", create_join},
    {"errand", errand},
};

static void *measure(void *argument) {
    (void)argument;
    item->run();
    uint64_t start = now(), done = 0;
    do {
        item->run();
        done++;
    } while (done < rounds && (done % ROUNDS_PER_LOOK || now() - start < limit));
    printf("%llu %llu\n", (unsigned long long)(now() - start), (unsigned long long)done);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 4)
        die("arguments: item rounds limit_ns");
    for (size_t i = 0; i < sizeof ITEMS / sizeof *ITEMS; i++)
        if (strcmp(ITEMS[i].name, arguments[1]) == 0)
            item = &ITEMS[i];
    if (!item)
        die("no such item");
    rounds = strtoull(arguments[2], NULL, 10);
    limit = strtoull(arguments[3], NULL, 10);
    must(sem_init(&semaphore, 0, 0), "sem_init");
    pthread_t thread;
    must(pthread_create(&thread, NULL, measure, NULL), "pthread_create");
    must(pthread_join(thread, NULL), "pthread_join");
    return 0;
}
