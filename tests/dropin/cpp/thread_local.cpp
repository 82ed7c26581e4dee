// thread_local objects are constructed at their first use in each thread and destroyed at its end,
// in reverse order, by destructors that may suspend and use other thread_local objects.
#include "../check.h"
#include <chrono>
#include <string>
#include <thread>
#include <vector>

enum { THREADS = 200 };
static int made, destroyed, first_used;

struct First {
    std::string text = "first";
    First() { __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED); }
    ~First() {
        CHECK(text == "first, used by second");
        __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
    }
};
static thread_local First first;

struct Second {
    std::vector<int> numbers;
    explicit Second(int size) : numbers(static_cast<size_t>(size), size) {
        CHECK(first.text == "first");
        __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    }
    ~Second() {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::yield();
        first.text += ", used by second";
        __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
    }
};

static Second &second(int size) {
    static thread_local Second second(size);
    return second;
}

static void *run(void *argument) {
    int self = static_cast<int>(reinterpret_cast<long>(argument));
    if (self % 4 == 3) return nullptr;
    EQUAL(second(self).numbers.size(), self);
    std::this_thread::yield();
    EQUAL(second(-1).numbers.size(), self);
    __atomic_add_fetch(&first_used, 1, __ATOMIC_RELAXED);
    if (self % 4 == 2) pthread_exit(nullptr);
    return nullptr;
}

int main() {
    std::vector<pthread_t> threads;
    for (long i = 0; i < THREADS; i++) threads.push_back(start(run, reinterpret_cast<void *>(i)));
    for (pthread_t thread : threads) join(thread);
    EQUAL(first_used, THREADS / 4 * 3);
    EQUAL(made, THREADS / 4 * 3 * 2);
    EQUAL(destroyed, made);
    return 0;
}
