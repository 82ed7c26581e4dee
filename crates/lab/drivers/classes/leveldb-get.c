// Lookups in a LevelDB on /dev/shm.
#include "work.h"
#include <leveldb/c.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 4000000 : 1000;
    char name[64], *error = 0;
    sprintf(name, "/dev/shm/leveldb%d", getpid());
    leveldb_options_t *o = leveldb_options_create();
    leveldb_options_set_create_if_missing(o, 1);
    leveldb_options_set_write_buffer_size(o, 64 << 20);
    leveldb_options_set_cache(o, leveldb_cache_create_lru(1 << 30));
    leveldb_options_set_compression(o, leveldb_no_compression);
    leveldb_t *db = leveldb_open(o, name, &error);
    leveldb_writeoptions_t *w = leveldb_writeoptions_create();
    leveldb_readoptions_t *r = leveldb_readoptions_create();
    char value[100] = "value";
    for (uint64_t i = 0; i < n && !error; i++)
        leveldb_put(db, w, (char *)&i, 8, value, 100, &error);
    leveldb_compact_range(db, 0, 0, 0, 0);
    char command[96];
    sprintf(command, "rm -rf %s", name);
    // The files stay open.
    if (error || system(command))
        return 1;
    REPEAT({
        uint64_t k = draw() % n, len;
        char *got = leveldb_get(db, r, (char *)&k, 8, &len, &error);
        sink += len;
        leveldb_free(got);
    });
}
