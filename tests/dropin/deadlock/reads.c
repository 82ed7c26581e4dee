// A thread that reads goes on once there is input, though all the rest of the program waits for it.
#include "../check.h"

static void *run(UNUSED void *argument) {
    char byte;
    EQUAL(write(1, "waits\n", 6), 6);
    EQUAL(read(0, &byte, 1), 0);
    return NULL;
}

int main(void) {
    join(start(run, NULL));
    return 0;
}
