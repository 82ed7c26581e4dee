// Lookups in the tree of the C library.
#include "work.h"
#include <search.h>

static int order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 12000000 : 1000;
    uint64_t *keys = malloc(n * 8);
    void *root = 0;
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = i * 0x9E3779B97F4A7C15ull;
        tsearch(keys + i, &root, order);
    }
    REPEAT({
        uint64_t k = draw() % n * 0x9E3779B97F4A7C15ull;
        sink += (uint64_t)tfind(&k, &root, order);
    });
}
