// Lookups of strings in a hash table of 1.5 GB.
#include "work.h"

struct w {
    struct w *next;
    unsigned n;
    char s[40];
};
static unsigned hash(const char *s) {
    unsigned h = 5381;
    while (*s)
        h = h * 33 ^ (unsigned char)*s++;
    return h;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t N = large ? 25000000 : 1000, M = large ? 1 << 24 : 1024;
    struct w **b = calloc(M, 8), *p = calloc(N, sizeof *p);
    for (uint64_t i = 0; i < N; i++) {
        sprintf(p[i].s, "word-%lu-%lx", i, i * 2654435761ul);
        unsigned h = hash(p[i].s) % M;
        p[i].next = b[h];
        b[h] = p + i;
    }
    REPEAT({
        uint64_t i = draw() % N;
        char k[40];
        char *q = k;
        strcpy(k, "word-");
        q = k + 5;
        char d[20];
        int l = 0;
        uint64_t t = i;
        do {
            d[l++] = '0' + t % 10;
            t /= 10;
        } while (t);
        while (l)
            *q++ = d[--l];
        *q++ = '-';
        t = i * 2654435761ul;
        int sh = 60;
        while (sh > 0 && !(t >> sh & 15))
            sh -= 4;
        for (; sh >= 0; sh -= 4)
            *q++ = "0123456789abcdef"[t >> sh & 15];
        *q = 0;
        struct w *w = b[hash(k) % M];
        while (w && strcmp(w->s, k))
            w = w->next;
        if (w)
            w->n++;
    });
}
