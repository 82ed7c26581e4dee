// Appends to a persistent log: 256 random bytes each.
#include "work.h"
#include <libpmem.h>

int main(int c, char **v) {
    begin(c, v);
    size_t L;
    int f;
    uint64_t N = 64 << 20;
    char name[64];
    sprintf(name, "/dev/shm/pmlog%d", getpid());
    char *p = pmem_map_file(name, N, PMEM_FILE_CREATE, 0600, &L, &f);
    unlink(name);
    if (!p)
        return 1;
    char buf[256];
    memset(buf, 1, 256);
    uint64_t at = 0;
    REPEAT({
        for (int i = 0; i < 256; i += 8)
            *(uint64_t *)(buf + i) = draw();
        memcpy(p + at, buf, 256);
        pmem_persist(p + at, 256);
        at = (at + 256) % N;
    });
}
