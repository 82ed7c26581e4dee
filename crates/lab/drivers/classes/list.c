// A walk along a list in random order, 2 GB.
#include "work.h"

struct n {
    struct n *next;
    uint64_t v[7];
};
int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 1ull << 25 : 1ull << 10;
    struct n *p = malloc(N * sizeof *p);
    uint32_t *o = malloc(N * 4);
    for (uint64_t i = 0; i < N; i++)
        o[i] = i;
    for (uint64_t i = N - 1; i; i--) {
        uint64_t j = draw() % (i + 1);
        uint32_t t = o[i];
        o[i] = o[j];
        o[j] = t;
    }
    for (uint64_t i = 0; i < N; i++) {
        p[o[i]].next = p + o[(i + 1) % N];
        p[o[i]].v[0] = i;
    }
    free(o);
    struct n *n = p;
    REPEAT({
        sink += n->v[0];
        n = n->next;
    });
}
