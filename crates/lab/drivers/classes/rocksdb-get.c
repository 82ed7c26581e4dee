// Lookups in a RocksDB on /dev/shm, from its blocks in memory.
#include "work.h"
#include <rocksdb/c.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 5000000 : 1000;
    char name[64], command[96], *error = 0;
    sprintf(name, "/dev/shm/rocksdb%d", getpid());
    sprintf(command, "rm -rf %s", name);
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    rocksdb_block_based_table_options_t *b = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(b, rocksdb_cache_create_lru(2ull << 30));
    rocksdb_options_set_block_based_table_factory(o, b);
    rocksdb_t *db = rocksdb_open(o, name, &error);
    rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(w, 1);
    rocksdb_readoptions_t *r = rocksdb_readoptions_create();
    char value[100] = "value";
    for (uint64_t i = 0; i < n && !error; i++)
        rocksdb_put(db, w, (char *)&i, 8, value, 100, &error);
    rocksdb_compact_range(db, 0, 0, 0, 0);
    // The files stay open.
    if (error || system(command))
        return 1;
    REPEAT({
        uint64_t k = draw() % n, len;
        char *got = rocksdb_get(db, r, (char *)&k, 8, &len, &error);
        sink += len;
        free(got);
    });
}
