// Lookups in a Redis, by a script in it.
#include "redis.h"

int main(int c, char **v) {
    begin(c, v);
    redis(large ? 10000000 : 1000, "'set', 'k' .. i, i", "'get', 'k' .. math.random(%lu)");
}
