// pthread_create fails with EAGAIN where there is no memory for the stack, and with EINVAL or EPERM
// for attributes that cannot be; the process goes on as before.
#include "../check.h"
#include <sched.h>

static int target;

static void *run(void *argument) { return argument; }

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    for (int round = 0; round < 10; round++) {
        run_threads(round % 4, run);
        EQUAL(pthread_attr_init(&attributes), 0);
        EQUAL(pthread_attr_setstacksize(&attributes, (size_t)1 << 48), 0);
        EQUAL(pthread_create(&thread, &attributes, run, NULL), EAGAIN);
        CHECK(join(start(run, &target)) == &target);
        EQUAL(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
        EQUAL(pthread_create(&thread, &attributes, run, &target), 0);
        CHECK(join(thread) == &target);

        // CPUs that there are not.
        cpu_set_t none;
        CPU_ZERO(&none);
        EQUAL(pthread_attr_setaffinity_np(&attributes, sizeof none, &none), 0);
        EQUAL(pthread_create(&thread, &attributes, run, NULL), EINVAL);
        EQUAL(pthread_attr_destroy(&attributes), 0);

        // A priority that the policy does not have.
        struct sched_param parameters = {.sched_priority = 1000};
        EQUAL(pthread_attr_init(&attributes), 0);
        EQUAL(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO), 0);
        EQUAL(pthread_attr_setschedparam(&attributes, &parameters), EINVAL);
        EQUAL(pthread_attr_setdetachstate(&attributes, 77), EINVAL);
        EQUAL(pthread_attr_setinheritsched(&attributes, 77), EINVAL);
        EQUAL(pthread_attr_setschedpolicy(&attributes, 77), EINVAL);
        EQUAL(pthread_attr_setscope(&attributes, PTHREAD_SCOPE_PROCESS), ENOTSUP);
        EQUAL(pthread_create(&thread, &attributes, run, NULL), 0);
        EQUAL(join(thread), 0);
    }
    return 0;
}
