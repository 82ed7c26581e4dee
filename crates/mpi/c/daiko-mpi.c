// libdaiko-mpi.so: blocking calls of MPI that give up the worker of the calling thread.
//
// Each call becomes its non-blocking form and a wait. Requests that have not ended at once are in
// one table, under one lock. One of the waiting threads, the leader, looks at the table and yields
// between two looks; the other waiters sleep until its wake. Once the leader's request has ended,
// it makes another waiter the leader.
//
// A thread of `daiko run` waits by the semaphores, and yields by the function, that its libraries
// take over. A fiber of libdaiko uses that library's.
#define _GNU_SOURCE
#include "daiko-mpi.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64 };

typedef struct {
    uint64_t reserved[4];
} daiko_semaphore;

// Of daiko.h; null unless the program has libdaiko.
int daiko_yield(void) __attribute__((weak));
int daiko_semaphore_init(daiko_semaphore *, uint32_t) __attribute__((weak));
int daiko_semaphore_acquire(daiko_semaphore *, uint32_t) __attribute__((weak));
int daiko_semaphore_release(daiko_semaphore *, uint32_t) __attribute__((weak));

struct waiter {
    int has_ended, error;
    MPI_Status status;
    // The request as it is after its end: a persistent request keeps its handle.
    MPI_Request request;
    union {
        sem_t own;
        daiko_semaphore daiko;
    } wake;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// All below is used under the lock.
static struct {
    MPI_Request *requests;
    struct waiter **waiters;
    int count, room, next;
    struct waiter *leader;
} table;

static int has_libdaiko(void) { return daiko_semaphore_acquire && daiko_yield; }

static void prepare(struct waiter *waiter) {
    memset(waiter, 0, sizeof *waiter);
    if (has_libdaiko())
        daiko_semaphore_init(&waiter->wake.daiko, 0);
    else
        sem_init(&waiter->wake.own, 0, 0);
}

static void wake(struct waiter *waiter) {
    if (has_libdaiko())
        daiko_semaphore_release(&waiter->wake.daiko, 1);
    else
        sem_post(&waiter->wake.own);
}

static void yield(void) {
    if (!has_libdaiko() || daiko_yield() != 0)
        sched_yield();
}

// Returns false if the caller has to look for itself: a fiber that was cancelled.
static int await(struct waiter *waiter) {
    if (has_libdaiko())
        return daiko_semaphore_acquire(&waiter->wake.daiko, 1) != ECANCELED;
    while (sem_wait(&waiter->wake.own) != 0 && errno == EINTR)
        ;
    return 1;
}

static void end(int at, const MPI_Status *status, int error) {
    struct waiter *waiter = table.waiters[at];
    waiter->request = table.requests[at];
    waiter->status = *status;
    waiter->error = error;
    waiter->has_ended = 1;
    if (waiter != table.leader)
        wake(waiter);
}

// Tests each request, as the call for all of them has failed.
static int test_each(MPI_Request *requests, int count, int *places, MPI_Status *statuses) {
    int ended = 0;
    for (int i = 0; i < count; i++) {
        int has_ended = 0;
        int error = PMPI_Test(&requests[i], &has_ended, &statuses[ended]);
        if (error == MPI_SUCCESS && !has_ended)
            continue;
        statuses[ended].MPI_ERROR = error;
        places[ended++] = i;
    }
    return ended;
}

// Tests the requests of a window; those that have ended leave the table.
static void look(void) {
    MPI_Status statuses[WINDOW];
    int places[WINDOW], ended = 0;
    table.next = table.next < table.count ? table.next : 0;
    int count = table.count - table.next < WINDOW ? table.count - table.next : WINDOW;
    if (count == 0)
        return;
    MPI_Request *requests = table.requests + table.next;
    int error = PMPI_Testsome(count, requests, &ended, places, statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS)
        ended = test_each(requests, count, places, statuses);
    if (ended == MPI_UNDEFINED)
        ended = 0;
    // Gaps are closed from the end, so that no request that has ended fills one.
    unsigned char has_ended[WINDOW] = {0};
    for (int i = 0; i < ended; i++) {
        int own = error == MPI_SUCCESS ? MPI_SUCCESS : statuses[i].MPI_ERROR;
        end(table.next + places[i], &statuses[i], own);
        has_ended[places[i]] = 1;
    }
    for (int i = count - 1; i >= 0; i--) {
        if (!has_ended[i])
            continue;
        int last = --table.count;
        table.requests[table.next + i] = table.requests[last];
        table.waiters[table.next + i] = table.waiters[last];
    }
    if (ended == 0)
        table.next += count;
}

// Enters a request. Returns false without memory.
static int enter(struct waiter *waiter, MPI_Request request) {
    if (table.count == table.room) {
        int room = table.room ? 2 * table.room : WINDOW;
        MPI_Request *requests = realloc(table.requests, (size_t)room * sizeof *requests);
        if (requests)
            table.requests = requests;
        struct waiter **waiters = realloc(table.waiters, (size_t)room * sizeof *waiters);
        if (waiters)
            table.waiters = waiters;
        if (!requests || !waiters)
            return 0;
        table.room = room;
    }
    table.requests[table.count] = request;
    table.waiters[table.count++] = waiter;
    if (!table.leader)
        table.leader = waiter;
    return 1;
}

static int is_leader(const struct waiter *waiter) {
    pthread_mutex_lock(&lock);
    int is = table.leader == waiter;
    pthread_mutex_unlock(&lock);
    return is;
}

// Looks until the own request has ended.
static void lead(struct waiter *waiter) {
    for (;;) {
        pthread_mutex_lock(&lock);
        if (!waiter->has_ended)
            look();
        int has_ended = waiter->has_ended;
        if (has_ended && table.leader == waiter) {
            table.leader = table.count ? table.waiters[0] : NULL;
            if (table.leader)
                wake(table.leader);
        }
        pthread_mutex_unlock(&lock);
        if (has_ended)
            return;
        yield();
    }
}

static int has_multiple(void) {
    static int level = -1;
    int found = __atomic_load_n(&level, __ATOMIC_RELAXED);
    if (found < 0 && PMPI_Query_thread(&found) == MPI_SUCCESS)
        __atomic_store_n(&level, found, __ATOMIC_RELAXED);
    return found == MPI_THREAD_MULTIPLE;
}

int daiko_mpi_wait(MPI_Request *request, MPI_Status *status) {
    if (!has_multiple())
        return PMPI_Wait(request, status);
    int has_ended = 0;
    int error = PMPI_Test(request, &has_ended, status);
    if (error != MPI_SUCCESS || has_ended)
        return error;
    int before;
    // A cancelled thread would leave its frame to the table.
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    struct waiter waiter;
    prepare(&waiter);
    pthread_mutex_lock(&lock);
    int entered = enter(&waiter, *request);
    pthread_mutex_unlock(&lock);
    if (!entered) {
        pthread_setcancelstate(before, NULL);
        return PMPI_Wait(request, status);
    }
    // A wake means the end, or the lead.
    while (!is_leader(&waiter) && await(&waiter)) {
        pthread_mutex_lock(&lock);
        int ended = waiter.has_ended;
        pthread_mutex_unlock(&lock);
        if (ended)
            break;
    }
    lead(&waiter);
    if (!has_libdaiko())
        sem_destroy(&waiter.wake.own);
    pthread_setcancelstate(before, NULL);
    *request = waiter.request;
    if (status != MPI_STATUS_IGNORE) {
        int field = status->MPI_ERROR;
        *status = waiter.status;
        status->MPI_ERROR = field;
    }
    return waiter.error;
}

// The functions of MPI. With one thread that calls MPI there is no other to run.
#define BLOCKING(name, nonblocking, parameters, ...)                                               \
    int MPI_##name parameters {                                                                    \
        if (!has_multiple())                                                                       \
            return PMPI_##name(__VA_ARGS__);                                                       \
        MPI_Request request;                                                                       \
        int error = PMPI_##nonblocking(__VA_ARGS__, &request);                                     \
        return error == MPI_SUCCESS ? daiko_mpi_wait(&request, MPI_STATUS_IGNORE) : error;         \
    }

BLOCKING(Send, Isend,
         (const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm), data,
         count, type, to, tag, comm)
BLOCKING(Ssend, Issend,
         (const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm), data,
         count, type, to, tag, comm)
BLOCKING(Barrier, Ibarrier, (MPI_Comm comm), comm)
BLOCKING(Bcast, Ibcast, (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm), data,
         count, type, root, comm)
BLOCKING(Reduce, Ireduce,
         (const void *data, void *result, int count, MPI_Datatype type, MPI_Op op, int root,
          MPI_Comm comm),
         data, result, count, type, op, root, comm)
BLOCKING(Allreduce, Iallreduce,
         (const void *data, void *result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
         data, result, count, type, op, comm)
BLOCKING(Gather, Igather,
         (const void *data, int count, MPI_Datatype type, void *result, int each,
          MPI_Datatype result_type, int root, MPI_Comm comm),
         data, count, type, result, each, result_type, root, comm)
BLOCKING(Allgather, Iallgather,
         (const void *data, int count, MPI_Datatype type, void *result, int each,
          MPI_Datatype result_type, MPI_Comm comm),
         data, count, type, result, each, result_type, comm)
BLOCKING(Scatter, Iscatter,
         (const void *data, int count, MPI_Datatype type, void *result, int each,
          MPI_Datatype result_type, int root, MPI_Comm comm),
         data, count, type, result, each, result_type, root, comm)
BLOCKING(Alltoall, Ialltoall,
         (const void *data, int count, MPI_Datatype type, void *result, int each,
          MPI_Datatype result_type, MPI_Comm comm),
         data, count, type, result, each, result_type, comm)

int MPI_Wait(MPI_Request *request, MPI_Status *status) { return daiko_mpi_wait(request, status); }

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (!has_multiple())
        return PMPI_Waitall(count, requests, statuses);
    int failed = 0;
    for (int i = 0; i < count; i++) {
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
        int error = daiko_mpi_wait(&requests[i], status);
        failed |= error != MPI_SUCCESS;
        if (statuses != MPI_STATUSES_IGNORE)
            status->MPI_ERROR = error;
    }
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    if (!has_multiple())
        return PMPI_Recv(data, count, type, from, tag, comm, status);
    MPI_Request request;
    int error = PMPI_Irecv(data, count, type, from, tag, comm, &request);
    return error == MPI_SUCCESS ? daiko_mpi_wait(&request, status) : error;
}

int MPI_Sendrecv(const void *data, int count, MPI_Datatype type, int to, int send_tag, void *into,
                 int most, MPI_Datatype into_type, int from, int tag, MPI_Comm comm,
                 MPI_Status *status) {
    if (!has_multiple())
        return PMPI_Sendrecv(data, count, type, to, send_tag, into, most, into_type, from, tag,
                             comm, status);
    MPI_Request receive, send;
    int error = PMPI_Irecv(into, most, into_type, from, tag, comm, &receive);
    if (error != MPI_SUCCESS)
        return error;
    error = PMPI_Isend(data, count, type, to, send_tag, comm, &send);
    if (error != MPI_SUCCESS) {
        PMPI_Cancel(&receive);
        PMPI_Request_free(&receive);
        return error;
    }
    int sent = daiko_mpi_wait(&send, MPI_STATUS_IGNORE);
    int received = daiko_mpi_wait(&receive, status);
    return sent != MPI_SUCCESS ? sent : received;
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status) {
    if (!has_multiple())
        return PMPI_Probe(from, tag, comm, status);
    for (;;) {
        int found = 0;
        int error = PMPI_Iprobe(from, tag, comm, &found, status);
        if (error != MPI_SUCCESS || found)
            return error;
        yield();
    }
}
