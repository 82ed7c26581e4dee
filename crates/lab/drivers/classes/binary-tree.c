// Lookups in a binary tree of 2.3 GB.
#include "work.h"

struct n {
    struct n *c[2];
    uint64_t key;
};
static void put(struct n **at, struct n *x) {
    while (*at)
        at = &(*at)->c[x->key > (*at)->key];
    *at = x;
}
static struct n *get(struct n *n, uint64_t k) {
    while (n && n->key != k)
        n = n->c[k > n->key];
    return n;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 12000000 : 1000;
    struct n *r = 0;
    struct n *p = calloc(N, 192);
    for (uint64_t i = 0; i < N; i++) {
        struct n *x = (void *)((char *)p + i * 192);
        x->key = (i * 0x9E3779B97F4A7C15ull) >> 8;
        put(&r, x);
    }
    REPEAT({
        struct n *x = get(r, ((draw() % N) * 0x9E3779B97F4A7C15ull) >> 8);
        sink += (uint64_t)x->key;
    });
}
