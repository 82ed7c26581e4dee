// Products of matrices by a BLAS.
#include "work.h"
#include <cblas.h>

int main(int c, char **v) {
    begin(c, v);
    int n = large ? 8000 : 300;
    uint64_t bytes = (uint64_t)n * n * sizeof(double);
    double *a = malloc(bytes), *b = malloc(bytes), *r = malloc(bytes);
    for (uint64_t i = 0; i < (uint64_t)n * n; i++)
        a[i] = draw() % 7, b[i] = draw() % 5, r[i] = 0;
    // A step is a block of the product.
    int at = 0;
    REPEAT({
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 300, 300, 300, 1, a + at, n, b + at,
                    n, 0, r, 300);
        at = (at + 100) % (n - 299);
    });
}
