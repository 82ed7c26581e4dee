// A ring of Boost fibers, each with a channel.
#include "ring.h"

#include <boost/fiber/all.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

using channel = boost::fibers::buffered_channel<uint64_t>;

static struct ring ring;
static std::vector<std::unique_ptr<channel>> channels;
static std::atomic<uint64_t> arrived;

static void lead(channel &in, channel &out) {
    struct ring_leader leader = ring_leader();
    for (;;)
        out.push(ring_lead(&ring, &leader, in.value_pop()));
}

static void follow(channel &in, channel &out) {
    for (uint64_t expected = RING_START + 1;; expected++) {
        uint64_t found = in.value_pop();
        ring_check(found, expected);
        out.push(found);
    }
}

// Several workers spin when they have no runnable fiber: sleeping would add microseconds to each
// hop between workers.
struct spinning : boost::fibers::algo::round_robin {
    void suspend_until(std::chrono::steady_clock::time_point const &) noexcept override {}
    void notify() noexcept override {}
};

// A worker schedules its own fibers round-robin.
static void work(uint64_t worker) {
    if (ring.workers > 1)
        boost::fibers::use_scheduling_algorithm<spinning>();
    ring_bind(&ring, worker);
    std::vector<boost::fibers::fiber> fibers;
    boost::fibers::fixedsize_stack stack(64 * 1024);
    for (uint64_t i = 0; i < ring.threads; i++) {
        if (ring_worker(&ring, i) != worker)
            continue;
        channel &in = *channels[i], &out = *channels[ring.successor[i]];
        fibers.emplace_back(boost::fibers::launch::post, std::allocator_arg, stack, [i, &in, &out] {
            arrived++;
            i ? follow(in, out) : lead(in, out);
        });
    }
    for (auto &fiber : fibers)
        fiber.join();
}

int main(int count, char **arguments) {
    ring = ring_read(count, arguments);
    for (uint64_t i = 0; i < ring.threads; i++)
        channels.push_back(std::make_unique<channel>(2));
    std::vector<std::thread> workers;
    for (uint64_t worker = 0; worker < ring.workers; worker++)
        workers.emplace_back(work, worker);
    while (arrived < ring.threads)
        std::this_thread::yield();
    channels[0]->push(RING_START);
    // The leader ends the process.
    for (auto &worker : workers)
        worker.join();
}
