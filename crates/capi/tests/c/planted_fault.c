/* Writes behind a block of the heap, in a fiber that has suspended: a sanitizer must report it. */
#include "check.h"

static void *writes_too_far(void *none)
{
    volatile char *block = malloc(4);
    OK(daiko_yield());
    block[4] = 1;
    free((void *)block);
    return none;
}

int main(void)
{
    in_runtime(1, writes_too_far);
    return 0;
}
