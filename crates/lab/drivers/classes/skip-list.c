// Lookups in a skip list of 2 GB in random order of memory.
#include "work.h"
#define L 20

struct n {
    uint64_t key, val;
    int h;
    struct n *next[];
};
static struct n *head;
static int height(void) {
    int h = 1;
    while (h < L && !(draw() & 3))
        h++;
    return h;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 24000000 : 2000;
    head = calloc(1, sizeof *head + 8 * L);
    struct n *last[L];
    for (int i = 0; i < L; i++)
        last[i] = head;

    struct n **slot = malloc(N * 8);
    for (uint64_t i = 0; i < N; i++) {
        int h = height();
        slot[i] = malloc(sizeof(struct n) + 8 * h + 32);
        slot[i]->h = h;
    }
    for (uint64_t i = N - 1; i; i--) {
        uint64_t j = draw() % (i + 1);
        struct n *t = slot[i];
        slot[i] = slot[j];
        slot[j] = t;
    }
    for (uint64_t i = 0; i < N; i++) {
        struct n *x = slot[i];
        x->key = i;
        x->val = i;
        for (int h = 0; h < x->h; h++) {
            x->next[h] = 0;
            last[h]->next[h] = x;
            last[h] = x;
        }
    }
    free(slot);
    REPEAT({
        uint64_t k = draw() % N;
        struct n *x = head;
        for (int h = L - 1; h >= 0; h--)
            while (x->next[h] && x->next[h]->key <= k)
                x = x->next[h];
        sink += x->val;
    });
}
