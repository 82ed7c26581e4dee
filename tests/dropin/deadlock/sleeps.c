// A thread that sleeps goes on by itself, though all the rest of the program waits for it.
#include "../check.h"
#include <poll.h>

static void *run(UNUSED void *argument) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    EQUAL(write(1, "waits\n", 6), 6);
    while (poll(&input, 1, 0) == 0) usleep(20000);
    return NULL;
}

int main(void) {
    join(start(run, NULL));
    return 0;
}
