// Sums over two arrays, 2 GB in order.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 1 << 27 : 1 << 11;
    double *a = calloc(N, 8), *b = calloc(N, 8);
    for (uint64_t i = 0; i < N; i++)
        a[i] = i, b[i] = 1;
    uint64_t at = 0;
    REPEAT({
        double s = 0;
        for (int i = 0; i < 1024; i++) {
            s = s * .5 + a[at + i] / (b[at + i] + 1);
        }
        sink += (uint64_t)s;
        at = (at + 1024) % N;
    });
}
