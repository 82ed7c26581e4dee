// Cancel and pthread_exit run the destructors of C++ objects on the stack, and pass catch (...)
// blocks that throw on.
#include "../check.h"
#include <semaphore.h>

static sem_t never;
static volatile bool finished;
static int destroyed, caught;

struct Counted {
    ~Counted() { destroyed++; }
};

static void end(bool exits) {
    Counted counted;
    if (exits) pthread_exit(&never);
    while (!finished) sem_wait(&never);
}

static void deep(int depth, bool exits) {
    if (depth == 0) return end(exits);
    Counted counted;
    try {
        deep(depth - 1, exits);
    } catch (...) {
        caught++;
        throw;
    }
}

static void *run(void *argument) {
    // A request before this would end the thread in the first sem_wait all the same.
    deep(9, argument != nullptr);
    return nullptr;
}

int main() {
    MUST(sem_init(&never, 0, 0));
    CHECK(join(start(run, &never)) == &never);
    EQUAL(destroyed, 10);
    EQUAL(caught, 9);
    pthread_t thread = start(run, nullptr);
    EQUAL(pthread_cancel(thread), 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    EQUAL(destroyed, 20);
    EQUAL(caught, 18);
    return 0;
}
