// A ring of POSIX threads. Each waits for its datum by a semaphore or, with CONDVAR defined, by a
// mutex and a condition variable of its own.
#include "ring.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

struct seat {
    _Alignas(64) uint64_t datum;
    struct seat *next;
#ifdef CONDVAR
    bool has_come;
    pthread_mutex_t mutex;
    pthread_cond_t come;
#else
    sem_t come;
#endif
};

static struct ring ring;

static void must(int result, const char *what) {
    if (result != 0)
        ring_die(what);
}

#ifdef CONDVAR

static void open_seat(struct seat *seat) {
    must(pthread_mutex_init(&seat->mutex, NULL), "pthread_mutex_init");
    must(pthread_cond_init(&seat->come, NULL), "pthread_cond_init");
}

static inline void send(struct seat *seat, uint64_t datum) {
    pthread_mutex_lock(&seat->mutex);
    seat->datum = datum;
    seat->has_come = true;
    pthread_mutex_unlock(&seat->mutex);
    pthread_cond_signal(&seat->come);
}

static inline uint64_t receive(struct seat *seat) {
    pthread_mutex_lock(&seat->mutex);
    while (!seat->has_come)
        pthread_cond_wait(&seat->come, &seat->mutex);
    seat->has_come = false;
    uint64_t datum = seat->datum;
    pthread_mutex_unlock(&seat->mutex);
    return datum;
}

#else

static void open_seat(struct seat *seat) { must(sem_init(&seat->come, 0, 0), "sem_init"); }

static inline void send(struct seat *seat, uint64_t datum) {
    seat->datum = datum;
    sem_post(&seat->come);
}

static inline uint64_t receive(struct seat *seat) {
    while (sem_wait(&seat->come) != 0)
        ;
    return seat->datum;
}

#endif

static void *lead(void *argument) {
    struct seat *seat = argument;
    struct ring_leader leader = ring_leader();
    for (;;)
        send(seat->next, ring_lead(&ring, &leader, receive(seat)));
}

static void *follow(void *argument) {
    struct seat *seat = argument;
    for (uint64_t expected = RING_START + 1;; expected++) {
        uint64_t found = receive(seat);
        ring_check(found, expected);
        send(seat->next, found);
    }
}

int main(int count, char **arguments) {
    ring = ring_read(count, arguments);
    struct seat *seats = aligned_alloc(64, ring.threads * sizeof *seats);
    pthread_t *threads = calloc(ring.threads, sizeof *threads);
    if (!seats || !threads)
        ring_die("out of memory");
    for (uint64_t i = 0; i < ring.threads; i++) {
        seats[i] = (struct seat){.next = &seats[ring.successor[i]]};
        open_seat(&seats[i]);
    }
    for (uint64_t i = 0; i < ring.threads; i++)
        must(pthread_create(&threads[i], NULL, i ? follow : lead, &seats[i]),
             "pthread_create: too many threads");
    send(&seats[0], RING_START);
    // The leader ends the process.
    pthread_join(threads[0], NULL);
}
