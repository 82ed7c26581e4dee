// A thread that is bound to a CPU runs there after every suspension, whether it was bound by
// itself, by another thread or by attributes; the remaining threads keep the CPUs of the process.
#include "../check.h"
#include <sched.h>

static cpu_set_t allowed;
static pthread_barrier_t barrier;

static cpu_set_t one(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

static void runs_on(int cpu) {
    for (int i = 0; i < 30; i++) {
        EQUAL(sched_getcpu(), cpu);
        unsigned by_call, node;
        EQUAL(getcpu(&by_call, &node), 0);
        EQUAL(by_call, cpu);
        if (i % 3) sched_yield();
        else pause_ms(1);
    }
    cpu_set_t now, wanted = one(cpu);
    EQUAL(pthread_getaffinity_np(pthread_self(), sizeof now, &now), 0);
    CHECK(CPU_EQUAL(&now, &wanted));
    MUST(sched_getaffinity(0, sizeof now, &now));
    CHECK(CPU_EQUAL(&now, &wanted));
}

static void *by_itself(void *cpu) {
    cpu_set_t set = one((int)(long)cpu);
    MUST(sched_setaffinity(0, sizeof set, &set));
    runs_on((int)(long)cpu);
    EQUAL(pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed), 0);
    return NULL;
}

static void *by_another(void *cpu) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    runs_on((int)(long)cpu);
    return NULL;
}

static void *by_attributes(void *cpu) {
    runs_on((int)(long)cpu);
    return NULL;
}

static void *unbound(UNUSED void *argument) {
    cpu_set_t now;
    EQUAL(pthread_getaffinity_np(pthread_self(), sizeof now, &now), 0);
    CHECK(CPU_EQUAL(&now, &allowed));
    CHECK(CPU_ISSET(sched_getcpu(), &allowed));
    return NULL;
}

int main(void) {
    MUST(sched_getaffinity(0, sizeof allowed, &allowed));
    EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
    int tried = 0;
    for (long cpu = 0; cpu < CPU_SETSIZE && tried < 3; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        tried++;
        cpu_set_t set = one((int)cpu);
        pthread_t own = start(by_itself, (void *)cpu), other = start(by_another, (void *)cpu), by;
        pthread_barrier_wait(&barrier);
        EQUAL(pthread_setaffinity_np(other, sizeof set, &set), 0);
        pthread_barrier_wait(&barrier);
        pthread_attr_t attributes;
        EQUAL(pthread_attr_init(&attributes), 0);
        EQUAL(pthread_attr_setaffinity_np(&attributes, sizeof set, &set), 0);
        EQUAL(pthread_create(&by, &attributes, by_attributes, (void *)cpu), 0);
        join(own);
        join(other);
        join(by);
        for (int i = 0; i < 5; i++) join(start(unbound, NULL));
    }
    return 0;
}
