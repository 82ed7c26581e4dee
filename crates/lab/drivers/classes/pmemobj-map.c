// A map with chains, kept by transactions of libpmemobj.
#include "work.h"
#include <libpmemobj.h>

#define CHAINS 4096
struct node {
    PMEMoid next;
    uint64_t key, value;
};
struct map {
    PMEMoid chains[CHAINS];
};
static PMEMobjpool *pool;
static struct map *map;

static void put(uint64_t key) {
    PMEMoid *at = map->chains + key % CHAINS;
    while (!OID_IS_NULL(*at)) {
        struct node *n = pmemobj_direct(*at);
        if (n->key == key) {
            n->value++;
            pmemobj_persist(pool, &n->value, 8);
            return;
        }
        at = &n->next;
    }
    TX_BEGIN(pool) {
        pmemobj_tx_add_range_direct(at, sizeof *at);
        PMEMoid made = pmemobj_tx_zalloc(sizeof(struct node), 0);
        ((struct node *)pmemobj_direct(made))->key = key;
        *at = made;
    }
    TX_END
}
int main(int c, char **v) {
    begin(c, v);
    char f[64];
    sprintf(f, "/dev/shm/pmmap%d", getpid());
    pool = pmemobj_create(f, "x", 64 << 20, 0600);
    unlink(f);
    if (!pool)
        return 1;
    map = pmemobj_direct(pmemobj_root(pool, sizeof *map));
    for (int i = 0; i < 40000; i++)
        put(draw() % 10000);
    REPEAT(put(draw() % 10000));
}
