// Products of sparse rows with a vector of 2 GB.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t X = large ? 1ull << 28 : 1ull << 12, R = 1 << 20;
    double *x = calloc(X, 8);
    for (uint64_t i = 0; i < X; i += 512)
        x[i] = i;
    uint32_t *col = malloc(R * 8 * 4);
    double *val = malloc(R * 8 * 8);
    for (uint64_t i = 0; i < R * 8; i++) {
        col[i] = draw() % X;
        val[i] = i;
    }
    uint64_t r = 0;
    REPEAT({
        double s = 0;
        for (int j = 0; j < 8; j++)
            s += val[r * 8 + j] * x[col[r * 8 + j]];
        sink += (uint64_t)s;
        r = (r + 1) % R;
    });
}
