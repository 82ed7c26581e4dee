// Sums over random neighbours, 1 GB.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 1ull << 27 : 1ull << 13;
    const uint64_t D = 4;
    uint32_t *to = malloc((large ? 1ull << 25 : N) * D * 4);
    float *a = calloc(N, 4), *b = calloc(N, 4);
    uint64_t E = (large ? 1ull << 25 : N) * D;
    for (uint64_t i = 0; i < E; i++)
        to[i] = draw() % N;
    for (uint64_t i = 0; i < N; i++)
        a[i] = 1.f / N;
    uint64_t e = 0;
    REPEAT({
        float x = 0;
        for (int d = 0; d < 4; d++) {
            x += a[to[e]];
            if (++e == E)
                e = 0;
        }
        b[(e / 4) % N] = .15f + .85f * x;
    });
}
