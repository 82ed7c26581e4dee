// Selections of single rows by SQLite.
#include "sqlite.h"

int main(int c, char **v) {
    begin(c, v);
    return sqlite("select x from t where k = ?");
}
