// A program may bring a malloc of its own: thread-locals of a library that is loaded later come
// from it, and go back to it, also where threads follow each other.
#include "../check.h"
#include <dlfcn.h>
#include <stdint.h>

enum { THREADS = 8, ROUNDS = 20 };

// Each block is a mapping, with its size and a mark at its start.
struct head {
    size_t size;
    uint64_t mark;
};
static const uint64_t MARK = 0x7a5c3d19e4b20f68;

void *malloc(size_t size) {
    struct head *head = mmap(NULL, sizeof *head + size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head == MAP_FAILED) return NULL;
    *head = (struct head){size, MARK};
    return head + 1;
}

void free(void *block) {
    if (block == NULL) return;
    struct head *head = (struct head *)block - 1;
    CHECK(head->mark == MARK);
    CHECK(munmap(head, sizeof *head + head->size) == 0);
}

void *calloc(size_t count, size_t size) {
    size_t all;
    return __builtin_mul_overflow(count, size, &all) ? NULL : malloc(all);
}

void *realloc(void *block, size_t size) {
    void *larger = malloc(size);
    if (block == NULL || larger == NULL) return larger;
    size_t old = ((struct head *)block - 1)->size;
    memcpy(larger, block, old < size ? old : size);
    free(block);
    return larger;
}

static int (*add)(int);

static void *run(void *argument) {
    int self = (int)(long)argument;
    EQUAL(add(self), 11 + self);
    pause_ms(1);
    EQUAL(add(self), 11 + 2 * self);
    return NULL;
}

int main(void) {
    void *library = dlopen("$ORIGIN/own_allocator.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) FAIL("%s", dlerror());
    *(void **)&add = dlsym(library, "add");
    CHECK(add != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (long i = 0; i < THREADS; i++) threads[i] = start(run, (void *)i);
        for (int i = 0; i < THREADS; i++) join(threads[i]);
    }
    return 0;
}
