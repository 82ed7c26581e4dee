// Atomic moves in a list of libpmemobj.
#include "work.h"
#include <libpmemobj.h>

POBJ_LAYOUT_BEGIN(list);
POBJ_LAYOUT_ROOT(list, struct root);
POBJ_LAYOUT_TOID(list, struct item);
POBJ_LAYOUT_END(list);
struct item {
    POBJ_LIST_ENTRY(struct item) links;
    uint64_t value;
};
struct root {
    POBJ_LIST_HEAD(list, struct item) head;
};
int main(int c, char **v) {
    begin(c, v);
    char f[64];
    sprintf(f, "/dev/shm/pmlist%d", getpid());
    PMEMobjpool *p = pmemobj_create(f, POBJ_LAYOUT_NAME(list), 32 << 20, 0600);
    unlink(f);
    if (!p)
        return 1;
    TOID(struct root) root = POBJ_ROOT(p, struct root);
    for (int i = 0; i < 100; i++)
        POBJ_LIST_INSERT_NEW_HEAD(p, &D_RW(root)->head, links, sizeof(struct item), 0, 0);
    REPEAT({
        TOID(struct item) last = POBJ_LIST_LAST(&D_RO(root)->head, links);
        POBJ_LIST_MOVE_ELEMENT_HEAD(p, &D_RW(root)->head, &D_RW(root)->head, last, links, links);
    });
}
