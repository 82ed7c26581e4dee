// A ring of Argobots threads. A thread hands over explicitly to a successor on the same execution
// stream. It resumes a successor on another stream, and suspends itself.
#include "ring.h"

#include <abt.h>
#include <stdatomic.h>

struct seat {
    _Alignas(64) _Atomic uint64_t datum;
    ABT_thread thread;
    struct seat *next;
    int same_stream;
};

static struct ring ring;
static struct seat *seats;
static _Atomic uint64_t arrived;

static void must(int result, const char *what) {
    if (result != ABT_SUCCESS)
        ring_die(what);
}

// Sends to the successor and waits for the next datum.
static inline uint64_t pass(struct seat *seat, uint64_t datum) {
    struct seat *next = seat->next;
    atomic_store_explicit(&next->datum, datum, memory_order_release);
    if (seat->same_stream) {
        ABT_self_resume_suspend_to(next->thread);
    } else {
        // It cannot be resumed before it is suspended.
        while (ABT_thread_resume(next->thread) != ABT_SUCCESS)
            ;
        ABT_self_suspend();
    }
    return atomic_load_explicit(&seat->datum, memory_order_acquire);
}

static uint64_t first_datum(struct seat *seat) {
    atomic_fetch_add(&arrived, 1);
    ABT_self_suspend();
    return atomic_load_explicit(&seat->datum, memory_order_acquire);
}

static void lead(void *argument) {
    struct seat *seat = argument;
    struct ring_leader leader = ring_leader();
    uint64_t found = first_datum(seat);
    for (;;)
        found = pass(seat, ring_lead(&ring, &leader, found));
}

static void follow(void *argument) {
    struct seat *seat = argument;
    uint64_t found = first_datum(seat);
    for (uint64_t expected = RING_START + 1;; expected++) {
        ring_check(found, expected);
        found = pass(seat, found);
    }
}

// Creates a pool for each execution stream. The first pool is the caller's.
static ABT_pool *make_streams(void) {
    ABT_pool *pools = calloc(ring.workers, sizeof *pools);
    if (!pools)
        ring_die("out of memory");
    ABT_xstream stream;
    must(ABT_xstream_self(&stream), "ABT_xstream_self");
    must(ABT_xstream_get_main_pools(stream, 1, &pools[0]), "ABT_xstream_get_main_pools");
    for (uint64_t i = 1; i < ring.workers; i++) {
        must(ABT_xstream_create(ABT_SCHED_NULL, &stream), "ABT_xstream_create");
        must(ABT_xstream_get_main_pools(stream, 1, &pools[i]), "ABT_xstream_get_main_pools");
    }
    return pools;
}

static void bind_stream(void *worker) {
    ring_bind(&ring, (uintptr_t)worker);
}

// Binds the streams here, as Argobots may have been built without affinity support.
static void bind_streams(ABT_pool *pools) {
    for (uintptr_t i = 0; i < ring.workers; i++) {
        ABT_thread thread;
        must(ABT_thread_create(pools[i], bind_stream, (void *)i, ABT_THREAD_ATTR_NULL, &thread),
             "ABT_thread_create");
        must(ABT_thread_free(&thread), "ABT_thread_free");
    }
}

int main(int count, char **arguments) {
    ring = ring_read(count, arguments);
    must(ABT_init(0, NULL), "ABT_init");
    ABT_pool *pools = make_streams();
    bind_streams(pools);
    seats = aligned_alloc(64, ring.threads * sizeof *seats);
    if (!seats)
        ring_die("out of memory");
    for (uint64_t i = 0; i < ring.threads; i++) {
        uint64_t next = ring.successor[i];
        seats[i].next = &seats[next];
        seats[i].same_stream = ring_worker(&ring, i) == ring_worker(&ring, next);
        atomic_init(&seats[i].datum, 0);
        must(ABT_thread_create(pools[ring_worker(&ring, i)], i ? follow : lead, &seats[i],
                               ABT_THREAD_ATTR_NULL, &seats[i].thread),
             "ABT_thread_create");
    }
    while (atomic_load(&arrived) < ring.threads)
        ABT_thread_yield();
    atomic_store(&seats[0].datum, RING_START);
    while (ABT_thread_resume(seats[0].thread) != ABT_SUCCESS)
        ABT_thread_yield();
    // The leader ends the process.
    ABT_thread_join(seats[0].thread);
}
