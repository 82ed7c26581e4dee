// A checksum by table over sequential bytes.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    static uint32_t T[256];
    for (int i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int k = 0; k < 8; k++)
            x = x & 1 ? x >> 1 ^ 0xEDB88320u : x >> 1;
        T[i] = x;
    }
    uint64_t N = large ? 1ull << 29 : 1ull << 14;
    unsigned char *b = malloc(N);
    memset(b, 7, N);
    uint64_t at = 0;
    uint32_t x = ~0u;
    REPEAT({
        for (int i = 0; i < 4096; i++)
            x = T[(x ^ b[at + i]) & 255] ^ x >> 8;
        at = (at + 4096) % N;
        sink = x;
    });
}
