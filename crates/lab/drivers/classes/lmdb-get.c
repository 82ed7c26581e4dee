// Lookups in an LMDB on /dev/shm.
#include "work.h"
#include <lmdb.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 8000000 : 1000;
    char name[64];
    sprintf(name, "/dev/shm/lmdb%d", getpid());
    MDB_env *e;
    MDB_txn *t;
    MDB_dbi d;
    mdb_env_create(&e);
    mdb_env_set_mapsize(e, 2ull << 30);
    if (mdb_env_open(e, name, MDB_NOSUBDIR | MDB_NOSYNC | MDB_NOLOCK | MDB_WRITEMAP, 0600))
        return 1;
    unlink(name);
    mdb_txn_begin(e, 0, 0, &t);
    mdb_dbi_open(t, 0, MDB_INTEGERKEY, &d);
    char value[100] = "value";
    for (uint64_t i = 0; i < n; i++) {
        MDB_val k = {8, &i}, x = {100, value};
        if (mdb_put(t, d, &k, &x, MDB_APPEND))
            return 1;
    }
    mdb_txn_commit(t);
    mdb_txn_begin(e, 0, MDB_RDONLY, &t);
    REPEAT({
        uint64_t at = draw() % n;
        MDB_val k = {8, &at}, x;
        mdb_get(t, d, &k, &x);
        sink += x.mv_size + *(char *)x.mv_data;
    });
}
