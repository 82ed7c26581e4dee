// Updates of random entries of a persistent table.
#include "work.h"
#include <libpmem.h>

struct e {
    uint64_t k, v, pad[6];
};
static void store(struct e *e, uint64_t k) {
    e->k = k;
    e->v++;
    pmem_flush(e, 16);
    pmem_drain();
}
int main(int c, char **v) {
    begin(c, v);
    size_t L;
    int f;
    uint64_t N = 16 << 20;
    char name[64];
    sprintf(name, "/dev/shm/pmhash%d", getpid());
    struct e *p = pmem_map_file(name, N, PMEM_FILE_CREATE, 0600, &L, &f);
    unlink(name);
    if (!p)
        return 1;
    REPEAT({
        uint64_t k = draw();
        store(p + k % (N / 64), k);
    });
}
