// A new thread has no exception in flight and fresh thread_local objects, and those of the last
// thread were destroyed at its end.
#include "../check.h"
#include <exception>
#include <stdexcept>
#include <string>

static int made, destroyed;

struct Counted {
    std::string text = "a text that is too long to be stored in place";
    Counted() { __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED); }
    ~Counted() { __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED); }
};

static thread_local Counted counted;
static thread_local int computed = made + 1000;

static void *spoil(void *) {
    counted.text = "spoiled";
    computed = -1;
    try {
        throw std::runtime_error("in flight at the end of the thread");
    } catch (...) {
        // Leaves with the handler active, as longjmp or pthread_exit in it would.
        pthread_exit(nullptr);
    }
}

static void *inspect(void *) {
    EQUAL(std::uncaught_exceptions(), 0);
    CHECK(std::current_exception() == nullptr);
    CHECK(counted.text.size() > 40);
    CHECK(computed >= 1000);
    return nullptr;
}

int main() {
    spoil_and_inspect(spoil, inspect);
    EQUAL(made, destroyed);
    CHECK(made >= 200);
    return 0;
}
