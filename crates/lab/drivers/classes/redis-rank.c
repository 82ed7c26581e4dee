// Ranks in a sorted set of a Redis, by a script in it.
#include "redis.h"

int main(int c, char **v) {
    begin(c, v);
    redis(large ? 5000000 : 1000, "'zadd', 'z', i * 7919 % 1000003, i",
          "'zrank', 'z', math.random(%lu)");
}
