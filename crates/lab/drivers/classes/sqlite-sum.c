// Sums over a hundred rows by SQLite.
#include "sqlite.h"

int main(int c, char **v) {
    begin(c, v);
    return sqlite("select sum(x * 3 + length(y)) from t where k between ?1 and ?1 + 100");
}
