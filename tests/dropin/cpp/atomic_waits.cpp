// atomic::wait, latch, barrier, counting_semaphore and jthread of C++20 suspend and wake.
#include "../check.h"
#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <semaphore>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
enum { THREADS = 8, ROUNDS = 300 };

static void ring() {
    std::atomic<int> turn = 0;
    std::vector<std::jthread> threads;
    for (int i = 0; i < THREADS; i++) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < ROUNDS; round++) {
                for (int seen; (seen = turn.load()) != i;) turn.wait(seen);
                turn = (i + 1) % THREADS;
                turn.notify_all();
            }
        });
    }
}

static void in_step() {
    int completed = 0;
    std::atomic<int> arrived = 0;
    std::latch begin(THREADS + 1);
    std::barrier barrier(THREADS, [&]() noexcept { completed++; });
    std::vector<std::jthread> threads;
    for (int i = 0; i < THREADS; i++) {
        threads.emplace_back([&] {
            begin.arrive_and_wait();
            for (int round = 1; round <= ROUNDS; round++) {
                arrived++;
                barrier.arrive_and_wait();
                CHECK(arrived >= round * THREADS);
                CHECK(completed >= round);
            }
        });
    }
    EQUAL(arrived.load(), 0);
    begin.count_down();
    threads.clear();
    EQUAL(completed, ROUNDS);
}

int main() {
    ring();
    in_step();
    std::counting_semaphore<> semaphore(2);
    std::atomic<int> inside = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < THREADS; i++) {
            threads.emplace_back([&] {
                for (int round = 0; round < ROUNDS; round++) {
                    semaphore.acquire();
                    CHECK(++inside <= 2);
                    if (round % 10 == 0) std::this_thread::yield();
                    inside--;
                    semaphore.release();
                }
            });
        }
    }
    CHECK(semaphore.try_acquire() && semaphore.try_acquire());
    auto end = std::chrono::steady_clock::now() + 20ms;
    CHECK(!semaphore.try_acquire_for(20ms));
    CHECK(std::chrono::steady_clock::now() >= end);
    std::jthread stopped([](std::stop_token token) {
        while (!token.stop_requested()) std::this_thread::sleep_for(1ms);
    });
    return 0;
}
