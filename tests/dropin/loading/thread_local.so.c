// A library with thread-locals and a constructor that suspends.
#include "../check.h"

static __thread int local = 11;
static __thread char large[20000];
static pthread_key_t key;
static int ready;

__attribute__((constructor)) static void construct(void) {
    pause_ms(2);
    EQUAL(pthread_key_create(&key, NULL), 0);
    ready = 1;
}

int add(int number);
int add(int number) {
    EQUAL(ready, 1);
    EQUAL(large[19999], (char)(local - 11));
    EQUAL(pthread_setspecific(key, &local), 0);
    local += number;
    large[19999] = (char)(large[19999] + number);
    return local;
}
