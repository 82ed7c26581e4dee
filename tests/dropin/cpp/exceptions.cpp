// Exceptions in flight stay with their thread over sleeps and yields, nested and rethrown, while
// 300 threads throw at once.
#include "../check.h"
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static int destroyed;

struct Suspends {
    // Unwinding runs this with the exception in flight.
    ~Suspends() {
        EQUAL(std::uncaught_exceptions(), 1);
        std::this_thread::yield();
        __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
    }
};

static void fail(int self, int depth) {
    Suspends suspends;
    if (depth == 0) throw std::runtime_error("thread " + std::to_string(self));
    fail(self, depth - 1);
}

static void run(int self) {
    std::string wanted = "thread " + std::to_string(self);
    for (int round = 0; round < 3; round++) {
        try {
            try {
                fail(self, 3);
            } catch (const std::exception &error) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                CHECK(wanted == error.what());
                try {
                    throw self;
                } catch (int number) {
                    std::this_thread::yield();
                    EQUAL(number, self);
                }
                CHECK(wanted == error.what());
                throw;
            }
        } catch (const std::runtime_error &error) {
            std::exception_ptr kept = std::current_exception();
            std::this_thread::yield();
            CHECK(std::current_exception() == kept);
            CHECK(wanted == error.what());
        }
        EQUAL(std::uncaught_exceptions(), 0);
        CHECK(std::current_exception() == nullptr);
    }
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 300; i++) threads.emplace_back(run, i);
    for (auto &thread : threads) thread.join();
    EQUAL(destroyed, 300 * 3 * 4);
    return 0;
}
