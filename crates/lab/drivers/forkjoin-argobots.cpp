// Work that forks and joins by threads of Argobots, on execution streams that steal from each
// other.
//
// Arguments: fib|tree|sort size leaf workers rounds limit_ns. Prints "elapsed_ns rounds peak_kib
// result": the time of the rounds after the first, and the growth of the resident memory at its
// most.
#include <abt.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using numbers = std::vector<uint64_t>;

static std::vector<ABT_pool> pools;

[[noreturn]] static void die(const char *line) {
    fprintf(stderr, "%s\n", line);
    _exit(2);
}

static void must(int result, const char *what) {
    if (result != ABT_SUCCESS)
        die(what);
}

// Runs `one` in a thread of its own, and `other` in the caller.
template <typename One, typename Other> static void fork_join(One one, Other other) {
    int rank;
    must(ABT_xstream_self_rank(&rank), "ABT_xstream_self_rank");
    ABT_thread thread;
    auto run = [](void *branch) { (*static_cast<One *>(branch))(); };
    must(ABT_thread_create(pools[rank], run, &one, ABT_THREAD_ATTR_NULL, &thread),
         "no memory for a thread of Argobots");
    other();
    // Joins it.
    must(ABT_thread_free(&thread), "ABT_thread_free");
}

static uint64_t plain_fib(uint64_t n) {
    return n < 2 ? n : plain_fib(n - 1) + plain_fib(n - 2);
}

static uint64_t fib(uint64_t n, uint64_t leaf) {
    if (n < std::max<uint64_t>(leaf, 2))
        return plain_fib(n);
    uint64_t one, other;
    fork_join([&] { one = fib(n - 1, leaf); }, [&] { other = fib(n - 2, leaf); });
    return one + other;
}

// The children of node n are 2n+1 and 2n+2.
static uint64_t tree(const numbers &values, size_t node) {
    if (node >= values.size())
        return 0;
    if (2 * node + 1 >= values.size())
        return values[node];
    uint64_t one, other;
    fork_join([&] { one = tree(values, 2 * node + 1); },
              [&] { other = tree(values, 2 * node + 2); });
    return values[node] + one + other;
}

static numbers sort(numbers low, size_t leaf) {
    if (low.size() <= leaf) {
        std::sort(low.begin(), low.end());
        return low;
    }
    auto middle = low.begin() + static_cast<ptrdiff_t>(low.size() / 2);
    numbers high(middle, low.end());
    low.erase(middle, low.end());
    numbers one, other;
    fork_join([&] { one = sort(std::move(low), leaf); },
              [&] { other = sort(std::move(high), leaf); });
    numbers merged;
    merged.reserve(one.size() + other.size());
    std::merge(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(merged));
    return merged;
}

static uint64_t sum(const numbers &values) {
    return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

// The sequence of SplitMix64, as the other methods have it.
static numbers random_numbers(uint64_t count) {
    numbers made(count);
    uint64_t state = 1;
    for (uint64_t &number : made) {
        uint64_t z = state += 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        number = z ^ (z >> 31);
    }
    return made;
}

// Returns a field of this process's status in KiB.
static uint64_t status(const char *field) {
    std::ifstream file("/proc/self/status");
    std::string name;
    while (file >> name) {
        uint64_t value;
        if (name == field && file >> value)
            return value;
        file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    return 0;
}

// Binds the calling thread to the CPU of a worker if there are enough CPUs. A thread inherits its
// creator's CPUs.
static void bind(const cpu_set_t &allowed, uint64_t workers, uint64_t worker) {
    if (workers < 2 || workers > static_cast<uint64_t>(CPU_COUNT(&allowed)))
        return;
    int cpu = 0;
    for (uint64_t before = 0; !CPU_ISSET(cpu, &allowed) || before++ < worker;)
        cpu++;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
}

// Creates an execution stream for each worker, with a pool of its own that the others steal from,
// as the library's own example has them. The caller is the first.
static void make_streams(uint64_t workers) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        die("sched_getaffinity");
    pools.resize(workers);
    for (ABT_pool &pool : pools)
        must(ABT_pool_create_basic(ABT_POOL_RANDWS, ABT_POOL_ACCESS_MPMC, ABT_TRUE, &pool),
             "ABT_pool_create_basic");
    for (uint64_t i = workers; i-- > 0;) {
        std::vector<ABT_pool> order(pools);
        std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(i), order.end());
        ABT_sched sched;
        must(ABT_sched_create_basic(ABT_SCHED_RANDWS, static_cast<int>(workers), order.data(),
                                    ABT_SCHED_CONFIG_NULL, &sched),
             "ABT_sched_create_basic");
        bind(allowed, workers, i);
        ABT_xstream stream;
        if (i > 0) {
            // With its rank, by which a fork finds the pool.
            must(ABT_xstream_create_with_rank(sched, static_cast<int>(i), &stream),
                 "ABT_xstream_create_with_rank");
        } else {
            must(ABT_xstream_self(&stream), "ABT_xstream_self");
            must(ABT_xstream_set_main_sched(stream, sched), "ABT_xstream_set_main_sched");
        }
    }
}

int main(int count, char **arguments) {
    if (count < 7)
        die("arguments: fib|tree|sort size leaf workers rounds limit_ns");
    std::string name = arguments[1];
    uint64_t given[5];
    for (int i = 0; i < 5; i++)
        given[i] = strtoull(arguments[i + 2], nullptr, 10);
    auto [size, leaf, workers, rounds, limit] = given;
    numbers input = random_numbers(name == "fib" ? 0 : size);
    auto work = [&, size = size, leaf = leaf] {
        if (name == "fib")
            return fib(size, leaf);
        if (name == "tree")
            return tree(input, 0);
        numbers sorted = sort(input, leaf);
        return std::is_sorted(sorted.begin(), sorted.end()) ? sum(sorted) : ~sum(sorted);
    };
    std::ofstream("/proc/self/clear_refs") << "5";
    uint64_t before = status("VmRSS:");
    must(ABT_init(0, nullptr), "ABT_init");
    make_streams(workers);
    uint64_t result = work(), done = 0, elapsed = 0;
    auto started = std::chrono::steady_clock::now();
    while (done < rounds && (done == 0 || elapsed < limit)) {
        if (work() != result) {
            fprintf(stderr, "the result changes\n");
            _exit(3);
        }
        done++;
        auto time = std::chrono::steady_clock::now() - started;
        elapsed = static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    }
    uint64_t peak = status("VmHWM:");
    printf("%llu %llu %llu %llu\n", (unsigned long long)elapsed, (unsigned long long)done,
           (unsigned long long)(peak - std::min(peak, before)), (unsigned long long)result);
    fflush(stdout);
    // The streams end with the process.
    _exit(0);
}
