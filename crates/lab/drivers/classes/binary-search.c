// Binary searches in a sorted array of 2 GB, by the C library.
#include "work.h"

static int cmp(const void *a, const void *b) {
    uint64_t x = *(uint64_t *)a, y = *(uint64_t *)b;
    return x < y ? -1 : x > y;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 1ull << 28 : 1ull << 10;
    uint64_t *t = malloc(N * 8);
    for (uint64_t i = 0; i < N; i++)
        t[i] = i * 3;
    REPEAT({
        uint64_t k = draw() % N * 3;
        uint64_t *p = bsearch(&k, t, N, 8, cmp);
        sink += *p;
    });
}
