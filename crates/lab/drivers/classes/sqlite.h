// A table in SQLite.
#ifndef SQLITE_H
#define SQLITE_H

#include "work.h"
#include <sqlite3.h>

// Fills a table, and repeats a selection with a random key.
static int sqlite(const char *select) {
    uint64_t n = large ? 15000000 : 1000;
    sqlite3 *db;
    sqlite3_stmt *s;
    sqlite3_open(":memory:", &db);
    char fill[256];
    sprintf(fill,
            "create table t (k integer primary key, x integer, y text);"
            "with recursive a(i) as (select 1 union all select i + 1 from a where i < %lu)"
            "insert into t select i, i * 7919, 'some text of a row' from a;",
            n);
    if (sqlite3_exec(db, fill, 0, 0, 0))
        return 1;
    if (sqlite3_prepare_v2(db, select, -1, &s, 0))
        return 1;
    REPEAT({
        sqlite3_bind_int64(s, 1, draw() % n + 1);
        sqlite3_step(s);
        sink += sqlite3_column_int64(s, 0);
        sqlite3_reset(s);
    });
}

#endif
