// A priority queue of the C++ library.
#include <queue>

#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 1 << 27 : 1 << 10;
    std::priority_queue<uint64_t> queue;
    for (uint64_t i = 0; i < n; i++)
        queue.push(draw());
    REPEAT({
        sink += queue.top();
        queue.pop();
        queue.push(draw());
    });
}
