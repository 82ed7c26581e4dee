// A new thread has the affinity, policy and nice value of its creator, not of the last thread.
#include "../check.h"
#include <sched.h>
#include <sys/resource.h>

static cpu_set_t first, allowed;
static int nice_value, policy;

static void *spoil(UNUSED void *argument) {
    EQUAL(pthread_setaffinity_np(pthread_self(), sizeof first, &first), 0);
    MUST(setpriority(PRIO_PROCESS, 0, 19));
    struct sched_param parameters = {0};
    EQUAL(pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters), 0);
    int now;
    EQUAL(pthread_getschedparam(pthread_self(), &now, &parameters), 0);
    EQUAL(now, SCHED_BATCH);
    EQUAL(getpriority(PRIO_PROCESS, 0), 19);
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    cpu_set_t set;
    EQUAL(pthread_getaffinity_np(pthread_self(), sizeof set, &set), 0);
    CHECK(CPU_EQUAL(&set, &allowed));
    EQUAL(getpriority(PRIO_PROCESS, 0), nice_value);
    EQUAL(sched_getscheduler(0), policy);
    return NULL;
}

int main(void) {
    EQUAL(pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed), 0);
    policy = sched_getscheduler(0);
    nice_value = getpriority(PRIO_PROCESS, 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) cpu++;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    spoil_and_inspect(spoil, inspect);
    return 0;
}
