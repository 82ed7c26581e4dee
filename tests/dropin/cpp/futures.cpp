// std::async, promises, packaged tasks and shared futures carry values and exceptions between
// threads; a wait with a deadline is not early.
#include "../check.h"
#include <chrono>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static long sum(const std::vector<int> &numbers, size_t from, size_t to) {
    if (to - from <= 64) {
        return std::accumulate(numbers.begin() + static_cast<long>(from),
                               numbers.begin() + static_cast<long>(to), 0l);
    }
    size_t middle = (from + to) / 2;
    auto left = std::async(std::launch::async, sum, std::cref(numbers), from, middle);
    long right = sum(numbers, middle, to);
    return left.get() + right;
}

int main() {
    std::vector<int> numbers(4096);
    std::iota(numbers.begin(), numbers.end(), 1);
    EQUAL(sum(numbers, 0, numbers.size()), 4096l * 4097 / 2);

    auto failing = std::async(std::launch::async, []() -> int {
        std::this_thread::sleep_for(1ms);
        throw std::runtime_error("failed");
    });
    try {
        failing.get();
        FAIL("no exception");
    } catch (const std::runtime_error &error) {
        CHECK(std::string("failed") == error.what());
    }

    std::promise<int> promise;
    std::shared_future<int> future = promise.get_future().share();
    auto end = std::chrono::steady_clock::now() + 20ms;
    CHECK(future.wait_for(20ms) == std::future_status::timeout);
    CHECK(std::chrono::steady_clock::now() >= end);
    std::vector<std::thread> threads;
    int got = 0;
    for (int i = 0; i < 20; i++) {
        threads.emplace_back(
            [&, future] { __atomic_add_fetch(&got, future.get(), __ATOMIC_RELAXED); });
    }
    std::thread([&] { promise.set_value_at_thread_exit(3); }).join();
    for (auto &thread : threads) thread.join();
    EQUAL(got, 60);

    std::packaged_task<int(int)> task([](int number) { return number + 1; });
    auto result = task.get_future();
    std::thread(std::move(task), 4).join();
    EQUAL(result.get(), 5);
    std::future<int> broken;
    { broken = std::promise<int>().get_future(); }
    try {
        broken.get();
        FAIL("no exception");
    } catch (const std::future_error &error) {
        CHECK(error.code() == std::future_errc::broken_promise);
    }
    return 0;
}
