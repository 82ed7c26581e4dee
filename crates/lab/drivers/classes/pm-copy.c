// Persistent copies to random places.
#include "work.h"
#include <libpmem.h>

int main(int c, char **v) {
    begin(c, v);
    size_t L;
    int f;
    uint64_t N = large ? 512 << 20 : 1 << 20;
    char name[64];
    sprintf(name, "/dev/shm/pmcopy%d", getpid());
    char *p = pmem_map_file(name, N, PMEM_FILE_CREATE, 0600, &L, &f);
    unlink(name);
    if (!p)
        return 1;
    memset(p, 1, N);
    char buf[256];
    memset(buf, 1, 256);
    REPEAT({ pmem_memcpy_persist(p + (draw() % (N / 256)) * 256, buf, 256); });
}
