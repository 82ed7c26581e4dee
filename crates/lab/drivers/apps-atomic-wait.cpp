// Threads pass a turn round by atomic::wait, and count it. Argument: rounds.
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int count, char **arguments) {
    if (count != 2) return 2;
    const int threads = 16, rounds = std::atoi(arguments[1]);
    std::atomic<int> turn{0};
    std::vector<std::jthread> all;
    for (int own = 0; own < threads; own++) {
        all.emplace_back([&turn, own, rounds] {
            for (int round = 0; round < rounds; round++) {
                int now;
                while ((now = turn.load()) % threads != own) turn.wait(now);
                turn++;
                turn.notify_all();
            }
        });
    }
    all.clear();
    return turn.load() != threads * rounds;
}
