// Records and the end of a persistent queue.
#include "work.h"
#include <libpmem.h>

struct rec {
    uint64_t seq, sum, data[14];
};
static uint64_t sum(struct rec *r) {
    uint64_t s = r->seq;
    for (int i = 0; i < 14; i++)
        s = s * 31 + r->data[i];
    return s;
}
int main(int c, char **v) {
    begin(c, v);
    size_t L;
    int f;
    char n[64];
    sprintf(n, "/dev/shm/pmq%d", getpid());
    char *p = pmem_map_file(n, 8 << 20, PMEM_FILE_CREATE, 0600, &L, &f);
    unlink(n);
    if (!p)
        return 1;
    uint64_t *tail = (void *)p;
    struct rec *q = (void *)(p + 4096);
    uint64_t N = 60000, i = 0;
    REPEAT({
        struct rec r = {.seq = i};
        for (int d = 0; d < 14; d++)
            r.data[d] = i * d;
        r.sum = sum(&r);
        q[i % N] = r;
        pmem_persist(&q[i % N], sizeof r);
        *tail = ++i;
        pmem_persist(tail, 8);
    });
}
