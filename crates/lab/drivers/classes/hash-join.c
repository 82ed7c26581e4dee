// Probes of an open hash table of 2 GB.
#include "work.h"

struct e {
    uint64_t key, val;
};
int main(int c, char **v) {
    begin(c, v);
    uint64_t M = large ? 1ull << 27 : 1ull << 12;
    struct e *t = malloc(M * 16);
    memset(t, 0xff, M * 16);
    for (uint64_t i = 0; i < M / 2; i++) {
        uint64_t k = i * 0x9E3779B97F4A7C15ull, h = (k >> 20) & (M - 1);
        while (t[h].key != ~0ull)
            h = (h + 1) & (M - 1);
        t[h].key = k;
        t[h].val = i;
    }
    REPEAT({
        uint64_t k = (draw() % (M / 2)) * 0x9E3779B97F4A7C15ull, h = (k >> 20) & (M - 1);
        while (t[h].key != k)
            h = (h + 1) & (M - 1);
        sink += t[h].val;
    });
}
