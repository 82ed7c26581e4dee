// Lookups in the hash table of GLib.
#include "work.h"
#include <glib.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 30000000 : 1000;
    GHashTable *t = g_hash_table_new(g_direct_hash, g_direct_equal);
    for (uint64_t i = 1; i <= n; i++)
        g_hash_table_insert(t, (void *)(i * 7919), (void *)i);
    REPEAT(sink += (uint64_t)g_hash_table_lookup(t, (void *)((draw() % n + 1) * 7919)));
}
