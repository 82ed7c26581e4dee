// Lookups in a map of the C++ library.
#include <map>

#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 15000000 : 1000;
    std::map<uint64_t, uint64_t> map;
    for (uint64_t i = 0; i < n; i++)
        map[i * 0x9E3779B97F4A7C15ull] = i;
    REPEAT(sink += map.find(draw() % n * 0x9E3779B97F4A7C15ull)->second);
}
