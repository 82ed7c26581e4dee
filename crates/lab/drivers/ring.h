// Code common to the ring drivers in C and C++.
//
// Arguments: threads laps workers limit_ns [first]; each thread's successor on standard input.
// Prints "elapsed_ns laps cpu_ns". A wrong datum gives status 3 and "expected found". `first` is
// the first value sent, 2 unless a test wants a wrong datum.
#ifndef DAIKO_RING_H
#define DAIKO_RING_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { RING_START = 1 };

struct ring {
    uint64_t threads, laps, workers, limit_ns, first;
    // For each thread, the thread that gets its datum, and the number of hops from thread 0.
    uint32_t *successor, *position;
};

static void ring_die(const char *line) {
    fprintf(stderr, "%s\n", line);
    _exit(2);
}

static struct ring ring_read(int count, char **arguments) {
    if (count < 5)
        ring_die("arguments: threads laps workers limit_ns [first]");
    struct ring ring;
    ring.threads = strtoull(arguments[1], NULL, 10);
    ring.laps = strtoull(arguments[2], NULL, 10);
    ring.workers = strtoull(arguments[3], NULL, 10);
    ring.limit_ns = strtoull(arguments[4], NULL, 10);
    ring.first = count > 5 ? strtoull(arguments[5], NULL, 10) : RING_START + 1;
    ring.successor = (uint32_t *)calloc(ring.threads, sizeof(uint32_t));
    ring.position = (uint32_t *)calloc(ring.threads, sizeof(uint32_t));
    if (!ring.successor || !ring.position)
        ring_die("out of memory");
    for (uint64_t i = 0; i < ring.threads; i++)
        if (scanf("%u", &ring.successor[i]) != 1 || ring.successor[i] >= ring.threads)
            ring_die("bad list of successors");
    uint32_t thread = 0;
    for (uint64_t hop = 0; hop < ring.threads; hop++) {
        ring.position[thread] = (uint32_t)hop;
        thread = ring.successor[thread];
    }
    return ring;
}

// The worker of a thread. Each worker has a contiguous part of the cycle.
static inline uint64_t ring_worker(const struct ring *ring, uint64_t thread) {
    return ring->position[thread] * ring->workers / ring->threads;
}

// Binds the calling thread, a worker, to a CPU of its own if there are enough CPUs: two workers
// that spin on one CPU would take turns by time slices. All workers must exist before, as a thread
// inherits its creator's CPUs.
static void ring_bind(const struct ring *ring, uint64_t worker) {
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    if (ring->workers < 2 || ring->workers > (uint64_t)CPU_COUNT(&allowed))
        return;
    int cpu = 0;
    for (uint64_t before = 0; !CPU_ISSET(cpu, &allowed) || before++ < worker;)
        cpu++;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
}

static inline void ring_check(uint64_t found, uint64_t expected) {
    if (__builtin_expect(found != expected, 0)) {
        printf("%llu %llu\n", (unsigned long long)expected, (unsigned long long)found);
        fflush(stdout);
        _exit(3);
    }
}

static uint64_t ring_read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t ring_now(void) { return ring_read_clock(CLOCK_MONOTONIC); }

// CPU time of all threads.
static uint64_t ring_cpu(void) { return ring_read_clock(CLOCK_PROCESS_CPUTIME_ID); }

// The part of thread 0: a new value each lap, and the clock, read at lap marks
// about a millisecond apart.
struct ring_leader {
    uint64_t expected, begun, started, started_cpu, elapsed, stride, next;
};

static inline struct ring_leader ring_leader(void) {
    struct ring_leader leader = {RING_START, 0, 0, 0, 0, 1, 1};
    return leader;
}

static __attribute__((noinline)) void ring_mark(const struct ring *ring, struct ring_leader *leader,
                                                uint64_t lap) {
    uint64_t elapsed = ring_now() - leader->started;
    if (elapsed - leader->elapsed < 1000000)
        leader->stride *= 2;
    leader->elapsed = elapsed;
    if (lap == ring->laps || elapsed > ring->limit_ns) {
        printf("%llu %llu %llu\n", (unsigned long long)elapsed, (unsigned long long)lap,
               (unsigned long long)(ring_cpu() - leader->started_cpu));
        fflush(stdout);
        _exit(0);
    }
    leader->next = lap + leader->stride < ring->laps ? lap + leader->stride : ring->laps;
}

// Laps that are not measured.
#define RING_WARM_UP 2

// Returns the leader's next datum after `found`, or ends the process after the last lap.
static inline uint64_t ring_lead(const struct ring *ring, struct ring_leader *leader,
                                 uint64_t found) {
    ring_check(found, leader->expected);
    uint64_t lap = leader->begun++;
    leader->expected++;
    if (__builtin_expect(lap <= RING_WARM_UP, 0)) {
        if (lap == 0)
            return ring->first;
        if (lap == RING_WARM_UP) {
            leader->started_cpu = ring_cpu();
            leader->started = ring_now();
        }
    } else if (lap - RING_WARM_UP == leader->next) {
        ring_mark(ring, leader, lap - RING_WARM_UP);
    }
    return leader->expected;
}

#endif
