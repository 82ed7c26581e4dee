// Updates of random words in 2 GB.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 1ull << 28 : 1ull << 11;
    uint64_t *t = malloc(N * 8);
    for (uint64_t i = 0; i < N; i++)
        t[i] = i;
    REPEAT({
        uint64_t r = draw();
        t[r & (N - 1)] ^= r;
    });
}
