// Threads are created and joined one after another, each with fresh thread-locals. Argument: count.
#include "../check.h"

static __thread int local = 7;
static int ran;

static void *run(void *argument) {
    EQUAL(local, 7);
    local = 8;
    ran++;
    return argument;
}

int main(int argc, char **argv) {
    long times = count(argc, argv, 2000);
    for (long i = 0; i < times; i++) EQUAL(join(start(run, (void *)i)), i);
    EQUAL(ran, times);
    return 0;
}
