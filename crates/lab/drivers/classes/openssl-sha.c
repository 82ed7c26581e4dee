// Hashes of random blocks by OpenSSL.
#include "work.h"
#include <openssl/sha.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 1 << 20 : 16;
    unsigned char *blocks = malloc(n * 1024), hash[32];
    for (uint64_t i = 0; i < n * 1024; i++)
        blocks[i] = i;
    REPEAT({
        SHA256(blocks + draw() % n * 1024, 1024, hash);
        sink += hash[0];
    });
}
