// Lookups in the balanced tree of GLib.
#include "work.h"
#include <glib.h>

static gint order(gconstpointer a, gconstpointer b) {
    return a < b ? -1 : a > b;
}
int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 12000000 : 1000;
    GTree *t = g_tree_new(order);
    for (uint64_t i = 1; i <= n; i++)
        g_tree_insert(t, (void *)(i * 0x9E3779B97F4A7C15ull), (void *)i);
    REPEAT(sink += (uint64_t)g_tree_lookup(t, (void *)((draw() % n + 1) * 0x9E3779B97F4A7C15ull)));
}
