// shared_mutex, shared_timed_mutex, timed_mutex, recursive_mutex and condition_variable(_any) of
// C++: exclusion, sharing, and timeouts that are not early.
#include "../check.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
enum { THREADS = 8, ROUNDS = 200 };

template <class Mutex> static void share() {
    Mutex mutex;
    long one = 0, two = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < ROUNDS; round++) {
                if ((round + i) % 4 == 0) {
                    std::unique_lock<Mutex> lock(mutex);
                    one++;
                    if (round % 16 == 0) std::this_thread::yield();
                    two++;
                } else {
                    std::shared_lock<Mutex> lock(mutex);
                    EQUAL(one, two);
                }
            }
        });
    }
    for (auto &thread : threads) thread.join();
    EQUAL(one, THREADS * ROUNDS / 4);
}

template <class Mutex> static void expire() {
    Mutex mutex;
    std::unique_lock<Mutex> lock(mutex);
    std::thread([&] {
        auto end = Clock::now() + 20ms;
        CHECK(!mutex.try_lock_for(20ms));
        CHECK(Clock::now() >= end);
        end = Clock::now() + 20ms;
        CHECK(!mutex.try_lock_until(end));
        CHECK(Clock::now() >= end);
    }).join();
}

template <class Condition> static void hand_over() {
    std::mutex mutex;
    Condition condition;
    int turn = 0;
    auto run = [&](int self) {
        for (int round = 0; round < ROUNDS; round++) {
            std::unique_lock<std::mutex> lock(mutex);
            if (round % 2) condition.wait(lock, [&] { return turn == self; });
            else CHECK(condition.wait_for(lock, 1h, [&] { return turn == self; }));
            turn = 1 - self;
            condition.notify_one();
        }
    };
    std::thread one(run, 0), two(run, 1);
    one.join();
    two.join();
    std::unique_lock<std::mutex> lock(mutex);
    auto end = Clock::now() + 20ms;
    CHECK(!condition.wait_until(lock, end, [] { return false; }));
    CHECK(Clock::now() >= end);
}

int main() {
    share<std::shared_mutex>();
    share<std::shared_timed_mutex>();
    expire<std::timed_mutex>();
    expire<std::recursive_timed_mutex>();
    expire<std::shared_timed_mutex>();
    hand_over<std::condition_variable>();
    hand_over<std::condition_variable_any>();
    return 0;
}
