/* The ring of P1: each of n fibers gets a number, checks it, hands it on and wakes its successor.
 *
 *     cc -O2 ring.c $(pkg-config --cflags --libs daiko) -o ring && ./ring 1000 2000 */
#define _POSIX_C_SOURCE 200809L
#include <daiko.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct member {
    uint64_t datum;
    daiko_fiber *fiber;
    struct member *next;
} __attribute__((aligned(64)));

static unsigned long laps;

static void *circulate(void *argument)
{
    struct member *self = argument;
    uint64_t lap;
    for (lap = 1; lap <= laps; lap++) {
        while (__atomic_load_n(&self->datum, __ATOMIC_ACQUIRE) != lap)
            if (daiko_park() != 0)
                return NULL;
        /* The last member begins the next lap with another number. */
        __atomic_store_n(&self->next->datum, lap + (self->next < self), __ATOMIC_RELEASE);
        daiko_unpark(self->next->fiber);
    }
    return NULL;
}

static void *run(void *argument)
{
    unsigned long n = *(unsigned long *)argument, i;
    struct member *members;
    struct timespec from, to;
    void *memory;
    if (posix_memalign(&memory, 64, n * sizeof *members) != 0)
        return (void *)"no memory";
    members = memory;
    for (i = 0; i < n; i++) {
        members[i].datum = 0;
        members[i].next = &members[(i + 1) % n];
        if (daiko_spawn(&members[i].fiber, NULL, circulate, &members[i]) != 0)
            return (void *)"no fiber";
    }
    /* A fiber may be unparked until all have ended. */
    for (i = 0; i < n; i++)
        daiko_fiber_retain(members[i].fiber);
    for (i = 0; i < 3; i++)
        daiko_yield();
    clock_gettime(CLOCK_MONOTONIC, &from);
    __atomic_store_n(&members[0].datum, 1, __ATOMIC_RELEASE);
    daiko_unpark(members[0].fiber);
    for (i = 0; i < n; i++)
        daiko_join(members[i].fiber, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (i = 0; i < n; i++)
        daiko_fiber_release(members[i].fiber);
    if (members[0].datum != laps + 1)
        return (void *)"a lap is missing";
    free(members);
    printf("%.2f ns per hop\n",
           ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / (n * laps));
    return NULL;
}

int main(int count, char **arguments)
{
    daiko_runtime_attr attr = DAIKO_RUNTIME_ATTR_INITIALIZER;
    daiko_runtime *runtime;
    unsigned long n = count > 1 ? strtoul(arguments[1], NULL, 10) : 100;
    void *fault = (void *)"no runtime";
    laps = count > 2 ? strtoul(arguments[2], NULL, 10) : 100;
    attr.workers = 1;
    if (daiko_runtime_new(&runtime, &attr) == 0) {
        daiko_runtime_run(runtime, run, &n, &fault);
        daiko_runtime_free(runtime);
    }
    if (fault != NULL)
        fprintf(stderr, "ring: %s\n", (char *)fault);
    return fault != NULL;
}
