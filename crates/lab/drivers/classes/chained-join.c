// Probes of a hash table with chains, 1.9 GB.
#include "work.h"

struct e {
    struct e *next;
    uint64_t key, val;
};
static struct e *probe(struct e **b, uint64_t m, uint64_t k) {
    struct e *e = b[(k * 0x9E3779B97F4A7C15ull >> 20) & m];
    while (e && e->key != k)
        e = e->next;
    return e;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t M = large ? 1ull << 25 : 1ull << 11;
    struct e **b = calloc(M, 8);
    struct e *p = malloc(M * 2 * sizeof *p);
    for (uint64_t i = 0; i < 2 * M; i++) {
        uint64_t h = (i * 0x9E3779B97F4A7C15ull >> 20) & (M - 1);
        p[i].key = i;
        p[i].val = i;
        p[i].next = b[h];
        b[h] = p + i;
    }
    REPEAT({
        struct e *e = probe(b, M - 1, draw() % (2 * M));
        if (e)
            sink += e->val;
    });
}
