// Atomic allocations of libpmemobj.
#include "work.h"
#include <libpmemobj.h>

int main(int c, char **v) {
    begin(c, v);
    char f[64];
    sprintf(f, "/dev/shm/pmalloc%d", getpid());
    PMEMobjpool *p = pmemobj_create(f, "x", 64 << 20, 0600);
    unlink(f);
    if (!p)
        return 1;
    static PMEMoid ids[1000];
    REPEAT({
        PMEMoid *id = ids + draw() % 1000;
        if (!OID_IS_NULL(*id))
            pmemobj_free(id);
        pmemobj_alloc(p, id, 64 + draw() % 200, 1, 0, 0);
    });
}
