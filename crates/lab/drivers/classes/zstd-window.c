// Compressions by zstd with a long window, piece by piece.
#include "work.h"
#include <zstd.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 1ull << 30 : 1 << 16;
    char *text = malloc(n), *out = malloc(1 << 20);
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t word = draw() & 0x0f0f0f0f0f0f0f0f;
        memcpy(text + i, &word, 8);
    }
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, 3);
    ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, large ? 30 : 16);
    ZSTD_CCtx_setParameter(z, ZSTD_c_hashLog, large ? 28 : 12);
    ZSTD_CCtx_setParameter(z, ZSTD_c_chainLog, large ? 28 : 12);
    uint64_t at = 0;
    REPEAT({
        ZSTD_inBuffer in = {text + at, 16384, 0};
        ZSTD_outBuffer to = {out, 1 << 20, 0};
        ZSTD_compressStream2(z, &to, &in, ZSTD_e_flush);
        at = (at + 16384) % n;
    });
}
