// Sorts of a small array, by the C library.
#include "work.h"

static int cmp(const void *a, const void *b) {
    uint64_t x = *(uint64_t *)a, y = *(uint64_t *)b;
    return x < y ? -1 : x > y;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t N = 2000;
    uint64_t *t = malloc(N * 8);
    REPEAT({
        for (uint64_t j = 0; j < N; j++)
            t[j] = draw();
        qsort(t, N, 8, cmp);
    });
}
