// A binary tree of libpmemobj with transactional insert and update, as the second set of P4.
#include "work.h"

#include <libpmemobj.h>

#define KEYS 1000

POBJ_LAYOUT_BEGIN(tree);
POBJ_LAYOUT_ROOT(tree, struct root);
POBJ_LAYOUT_TOID(tree, struct node);
POBJ_LAYOUT_END(tree);

struct node {
    uint64_t key, value;
    TOID(struct node) child[2];
};
struct root {
    TOID(struct node) top;
};

static PMEMobjpool *pool;

static void insert(TOID(struct node) * at, uint64_t key) {
    while (!TOID_IS_NULL(*at)) {
        struct node *node = D_RW(*at);
        if (node->key == key) {
            TX_BEGIN(pool) {
                TX_ADD_FIELD(*at, value);
                node->value++;
            }
            TX_END;
            return;
        }
        at = &node->child[key > node->key];
    }
    TX_BEGIN(pool) {
        TOID(struct node) node = TX_ZNEW(struct node);
        D_RW(node)->key = key;
        pmemobj_tx_add_range_direct(at, sizeof *at);
        *at = node;
    }
    TX_END;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    char file[64];
    sprintf(file, "/dev/shm/pm-tree%d", getpid());
    pool = pmemobj_create(file, POBJ_LAYOUT_NAME(tree), 64 << 20, 0600);
    unlink(file);
    if (!pool)
        return 1;
    TOID(struct root) root = POBJ_ROOT(pool, struct root);
    for (int i = 0; i < KEYS * 10; i++)
        insert(&D_RW(root)->top, draw() % KEYS);
    REPEAT(insert(&D_RW(root)->top, draw() % KEYS));
}
