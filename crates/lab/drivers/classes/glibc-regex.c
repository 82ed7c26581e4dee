// Searches in texts by the regular expressions of the C library.
#include "work.h"
#include <regex.h>

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 1 << 20 : 16;
    char *text = malloc(n * 1024);
    for (uint64_t i = 0; i < n * 1024; i++)
        text[i] = i % 1024 == 1023 ? 0 : "abcd"[draw() % 4];
    regex_t r;
    if (regcomp(&r, "(ab|cd)+a(bb|cc)d[ab]+cabd", REG_EXTENDED))
        return 1;
    REPEAT(sink += regexec(&r, text + draw() % n * 1024, 0, 0, 0));
}
