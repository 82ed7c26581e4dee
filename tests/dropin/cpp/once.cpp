// std::call_once and local statics run once for all threads; a function that throws is run again by
// another thread.
#include "../check.h"
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

enum { THREADS = 30, ROUNDS = 20 };
static int statics;

struct Slow {
    int value;
    Slow() : value(++statics) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
};

static Slow &slow() {
    static Slow slow;
    return slow;
}

static int throwing_tries;
static Slow *throwing() {
    static Slow *made = [] {
        std::this_thread::yield();
        if (__atomic_add_fetch(&throwing_tries, 1, __ATOMIC_RELAXED) < 3) throw 1;
        return new Slow;
    }();
    return made;
}

int main() {
    for (int round = 0; round < ROUNDS; round++) {
        std::once_flag flag;
        int tries = 0, done = 0, caught = 0;
        auto run = [&] {
            try {
                std::call_once(flag, [&] {
                    std::this_thread::yield();
                    if (++tries < 4) throw 5;
                    done++;
                });
                EQUAL(done, 1);
            } catch (int) {
                __atomic_add_fetch(&caught, 1, __ATOMIC_RELAXED);
            }
            EQUAL(slow().value, 1);
        };
        std::vector<std::thread> threads;
        for (int i = 0; i < THREADS; i++) threads.emplace_back(run);
        for (auto &thread : threads) thread.join();
        EQUAL(tries, 4);
        EQUAL(done, 1);
        EQUAL(caught, 3);
    }
    int caught = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) {
        threads.emplace_back([&] {
            try {
                EQUAL(throwing()->value, 2);
            } catch (int) {
                __atomic_add_fetch(&caught, 1, __ATOMIC_RELAXED);
            }
        });
    }
    for (auto &thread : threads) thread.join();
    EQUAL(caught, 2);
    delete throwing();
    return 0;
}
