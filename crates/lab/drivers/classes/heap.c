// Replacements of the least element of a small heap.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    int N = 4000;
    uint64_t *h = malloc(8 * N);
    for (int i = 0; i < N; i++)
        h[i] = i;
    REPEAT({
        uint64_t x = h[0] + draw() % 10000;
        int i = 0;
        for (;;) {
            int k = 2 * i + 1;
            if (k >= N)
                break;
            if (k + 1 < N && h[k + 1] < h[k])
                k++;
            if (h[k] >= x)
                break;
            h[i] = h[k];
            i = k;
        }
        h[i] = x;
    });
}
