// Transactions of libpmemobj on two random items.
#include "work.h"
#include <libpmemobj.h>

struct item {
    uint64_t v[6];
};
struct root {
    struct item a[1024];
};
int main(int c, char **v) {
    begin(c, v);
    char f[64];
    sprintf(f, "/dev/shm/pmtx%d", getpid());
    PMEMobjpool *p = pmemobj_create(f, "x", 32 << 20, 0600);
    unlink(f);
    if (!p)
        return 1;
    struct root *r = pmemobj_direct(pmemobj_root(p, sizeof *r));
    REPEAT({
        struct item *a = &r->a[draw() % 1024], *b = &r->a[draw() % 1024];
        TX_BEGIN(p) {
            pmemobj_tx_add_range_direct(a, sizeof *a);
            pmemobj_tx_add_range_direct(b, sizeof *b);
            uint64_t t = a->v[0];
            a->v[0] = b->v[0];
            b->v[0] = t + 1;
        }
        TX_END
    });
}
