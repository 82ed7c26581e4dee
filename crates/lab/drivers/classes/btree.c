// Lookups in a B-tree of 1.6 GB.
#include "work.h"
#define F 15

struct n {
    int count, leaf;
    uint64_t key[F];
    struct n *c[F + 1];
};
static struct n *build(uint64_t lo, uint64_t hi) {
    struct n *n = malloc(sizeof *n);
    uint64_t span = hi - lo;
    n->leaf = span <= F;
    n->count = n->leaf ? span : F;
    if (n->leaf) {
        for (uint64_t i = 0; i < span; i++)
            n->key[i] = lo + i;
        return n;
    }
    uint64_t prev = lo;
    for (int i = 0; i < F; i++) {
        uint64_t k = lo + span * (i + 1) / (F + 1);
        n->key[i] = k;
        n->c[i] = build(prev, k);
        prev = k;
    }
    n->c[F] = build(prev, hi);
    return n;
}
static uint64_t find(struct n *n, uint64_t k) {
    for (;;) {
        int i = 0;
        while (i < n->count && n->key[i] <= k)
            i++;
        if (n->leaf)
            return i ? n->key[i - 1] : 0;
        n = n->c[i];
    }
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 100000000 : 20000;
    struct n *r = build(0, N);
    REPEAT(sink += find(r, draw() % N));
}
