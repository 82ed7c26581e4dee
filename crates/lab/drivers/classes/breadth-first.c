// Breadth-first search of a random graph, 3 GB.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 1 << 27 : 1 << 12, D = 4;
    uint32_t *e = malloc((large ? N / 4 : N) * D * 4);
    uint64_t E = (large ? N / 4 : N);
    for (uint64_t i = 0; i < E * D; i++)
        e[i] = draw() % N;
    uint32_t *seen = calloc(N, 16);
    uint32_t *q = malloc(N * 4);
    uint64_t h = 0, t = 1;
    q[0] = 0;
    uint32_t mark = 1;
    REPEAT({
        if (h == t) {
            mark++;
            h = 0;
            t = 1;
            q[0] = draw() % N;
        }
        uint32_t u = q[h++];
        for (int d = 0; d < 4; d++) {
            uint32_t w = e[(u % E) * D + d];
            if (seen[w * 4ul] != mark && t < N) {
                seen[w * 4ul] = mark;
                q[t++] = w;
            }
        }
    });
}
