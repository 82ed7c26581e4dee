// pthread_getattr_np and the attributes at creation tell where the stack is: a local lies in it,
// nearly all of it can be used, and a stack that the program gives is the one that is used.
#include "../check.h"
#include <limits.h>
#include <sys/mman.h>

static void *given;
static size_t size = 256 << 10;

static void stack_of_self(char **low, size_t *bytes, size_t *guard) {
    pthread_attr_t attributes;
    EQUAL(pthread_getattr_np(pthread_self(), &attributes), 0);
    EQUAL(pthread_attr_getstack(&attributes, (void **)low, bytes), 0);
    EQUAL(pthread_attr_getguardsize(&attributes, guard), 0);
    EQUAL(pthread_attr_destroy(&attributes), 0);
}

static void *run(UNUSED void *argument) {
    char *low, here;
    size_t bytes, guard;
    stack_of_self(&low, &bytes, &guard);
    CHECK(&here > low && &here < low + bytes);
    CHECK(bytes + guard >= size);
    size_t left = (size_t)(&here - low);
    CHECK(left > size - 32768);
    volatile char *area = __builtin_alloca(left - 24576);
    for (size_t i = 0; i < left - 24576; i += 1024) area[i] = 1;
    pause_ms(1);
    CHECK((char *)area > low);
    return low;
}

static void *in_given(UNUSED void *argument) {
    char here;
    CHECK(&here > (char *)given && &here < (char *)given + size);
    CHECK(run(NULL) == given);
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    EQUAL(pthread_attr_init(&attributes), 0);
    EQUAL(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN - 1), EINVAL);
    EQUAL(pthread_attr_setstacksize(&attributes, size), 0);
    for (int i = 0; i < 10; i++) {
        EQUAL(pthread_create(&thread, &attributes, run, NULL), 0);
        join(thread);
    }
    given = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(given != MAP_FAILED);
    EQUAL(pthread_attr_setstack(&attributes, given, size), 0);
    for (int i = 0; i < 10; i++) {
        EQUAL(pthread_create(&thread, &attributes, in_given, NULL), 0);
        join(thread);
    }
    char *low, here;
    size_t bytes, guard;
    stack_of_self(&low, &bytes, &guard);
    CHECK(&here > low && &here < low + bytes);
    return 0;
}
