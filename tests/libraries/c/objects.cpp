// Exceptions and thread_local objects of C++.
#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

namespace {

std::atomic<long> destroyed{0};

struct Object {
    std::string text = "a text that is too long to be kept without an allocation";
    long value = 5;
    ~Object() { destroyed += value; }
};

thread_local Object object;

struct Suspends {
    void (*suspend)();
    ~Suspends() { suspend(); }
};

} // namespace

extern "C" {

long *objects_value() { return &object.value; }

long objects_destroyed() { return destroyed; }

// Throws `value`, suspends while the exception is in flight and while it is handled, and throws
// again from the handler. Returns what arrives in the outermost handler, or -1.
long objects_throw(long value, void (*suspend)()) {
    try {
        try {
            Suspends in_flight{suspend};
            throw std::runtime_error(std::to_string(value));
        } catch (const std::runtime_error &) {
            suspend();
            if (std::uncaught_exceptions() != 0)
                return -1;
            try {
                Suspends in_flight{suspend};
                throw value + 1;
            } catch (long inner) {
                suspend();
                if (inner != value + 1)
                    return -1;
            }
            throw;
        }
    } catch (const std::exception &error) {
        suspend();
        return std::stol(error.what());
    }
}
}
