// Sorts of pieces of an array by the C library.
#include "work.h"

static int order(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 1 << 29 : 1 << 12;
    uint32_t *all = malloc(n * 4);
    for (uint64_t i = 0; i < n; i++)
        all[i] = draw();
    static uint32_t piece[4096];
    REPEAT({
        memcpy(piece, all + draw() % (n / 4096) * 4096, sizeof piece);
        qsort(piece, 4096, 4, order);
    });
}
