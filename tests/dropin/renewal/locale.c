// A new thread has the global locale, though the last one had chosen its own.
#include "../check.h"
#include <ctype.h>
#include <locale.h>

static locale_t own;

static void *spoil(UNUSED void *argument) {
    CHECK(uselocale(own) == LC_GLOBAL_LOCALE);
    CHECK(uselocale(NULL) == own);
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    CHECK(uselocale(NULL) == LC_GLOBAL_LOCALE);
    CHECK(isalpha('a') && !isalpha('1') && toupper('b') == 'B');
    return NULL;
}

int main(void) {
    own = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
    if (own == NULL) own = newlocale(LC_ALL_MASK, "C", NULL);
    CHECK(own != NULL);
    spoil(NULL);
    spoil_and_inspect(spoil, inspect);
    CHECK(uselocale(NULL) == own);
    return 0;
}
