// Rows of a product of matrices that the caches hold.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    int N = large ? 200 : 64;
    double *a = malloc(8l * N * N), *b = malloc(8l * N * N), *r = calloc(8l * N, N);
    for (long i = 0; i < (long)N * N; i++)
        a[i] = b[i] = i % 7;
    long i = 0, k = 0;
    REPEAT(
        for (int m = 0; m < 14400; m += N) {
            double x = a[i * N + k];
            for (int j = 0; j < N; j++)
                r[i * N + j] += x * b[k * N + j];
            if (++k == N) {
                k = 0;
                if (++i == N)
                    i = 0;
            }
        });
}
