// Compressions of random blocks by zlib.
#include "work.h"
#include <zlib.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 1 << 18 : 4;
    unsigned char *blocks = malloc(n * 4096), out[8192];
    for (uint64_t i = 0; i < n * 4096; i++)
        blocks[i] = draw() % 16;
    REPEAT({
        uLongf len = sizeof out;
        compress2(out, &len, blocks + draw() % n * 4096, 4096, 6);
        sink += len;
    });
}
