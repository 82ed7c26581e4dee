// Threads of two ranks that wait for one another by blocking calls, each against expected values.
//
// Thread i of a rank waits first for thread THREADS - 1 - i of the other. With one worker each, the
// threads would wait for ever if a blocking call kept the worker.
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 60, ROUNDS = 10, LONG = 40000 };

static int rank, other;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);                 \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                          \
        }                                                                                          \
    } while (0)

static void exchange(int own, int peer) {
    uint64_t word = (uint64_t)own, found = 0;
    MPI_Status status;
    // The upper half sends first, and the lower half waits for it.
    if (own >= THREADS / 2)
        CHECK(MPI_Send(&word, 1, MPI_UINT64_T, other, peer, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Recv(&found, 1, MPI_UINT64_T, other, own, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    CHECK(found == (uint64_t)peer && status.MPI_SOURCE == other && status.MPI_TAG == own);
    if (own < THREADS / 2)
        CHECK(MPI_Send(&word, 1, MPI_UINT64_T, other, peer, MPI_COMM_WORLD) == MPI_SUCCESS);
    word = found = (uint64_t)own;
    CHECK(MPI_Sendrecv(&word, 1, MPI_UINT64_T, other, peer, &found, 1, MPI_UINT64_T, other, own,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(found == (uint64_t)peer);
}

static void long_messages(int own, int peer) {
    uint64_t *data = calloc(4 * LONG, sizeof *data);
    CHECK(data);
    MPI_Request requests[4];
    for (int i = 0; i < 2; i++) {
        for (int at = 0; at < LONG; at++)
            data[i * LONG + at] = (uint64_t)(own + i + at);
        MPI_Irecv(data + (2 + i) * LONG, LONG, MPI_UINT64_T, other, own, MPI_COMM_WORLD,
                  &requests[i]);
        MPI_Isend(data + i * LONG, LONG, MPI_UINT64_T, other, peer, MPI_COMM_WORLD,
                  &requests[2 + i]);
    }
    MPI_Status statuses[4];
    CHECK(MPI_Waitall(4, requests, statuses) == MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL && statuses[i].MPI_SOURCE == other);
        for (int at = 0; at < LONG; at++)
            CHECK(data[(2 + i) * LONG + at] == (uint64_t)(peer + i + at));
    }
    free(data);
}

static void persistent(int own, int peer) {
    uint64_t word = 0;
    MPI_Request request;
    MPI_Recv_init(&word, 1, MPI_UINT64_T, other, own, MPI_COMM_WORLD, &request);
    for (uint64_t round = 0; round < 3; round++) {
        uint64_t sent = round * 1000 + (uint64_t)own;
        MPI_Start(&request);
        MPI_Send(&sent, 1, MPI_UINT64_T, other, peer, MPI_COMM_WORLD);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(request != MPI_REQUEST_NULL && word == round * 1000 + (uint64_t)peer);
    }
    MPI_Request_free(&request);
}

static void *run(void *argument) {
    int own = (int)(intptr_t)argument, peer = THREADS - 1 - own;
    for (int round = 0; round < ROUNDS; round++)
        exchange(own, peer);
    persistent(own, peer);
    if (own % 20 == 0 || peer % 20 == 0)
        long_messages(own, peer);
    MPI_Status status;
    uint64_t word = (uint64_t)own, found;
    MPI_Send(&word, 1, MPI_UINT64_T, other, peer, MPI_COMM_WORLD);
    CHECK(MPI_Probe(other, own, MPI_COMM_WORLD, &status) == MPI_SUCCESS && status.MPI_TAG == own);
    MPI_Recv(&found, 1, MPI_UINT64_T, other, own, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(found == (uint64_t)peer);
    return NULL;
}

static void collectives(void) {
    int all[2] = {-1, -1}, own = rank + 5, sum = 0, root = rank ? 0 : 77, part = -1;
    int pair[2] = {rank * 10, rank * 10 + 1}, swapped[2] = {-1, -1};
    CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    MPI_Bcast(&root, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(root == 77 && sum == 11);
    MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK(all[0] == 5 && all[1] == 6);
    MPI_Alltoall(pair, 1, MPI_INT, swapped, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK(swapped[0] == rank && swapped[1] == 10 + rank);
    MPI_Scatter(all, 1, MPI_INT, &part, 1, MPI_INT, 1, MPI_COMM_WORLD);
    CHECK(part == own);
    sum = 0;
    MPI_Reduce(&own, &sum, 1, MPI_INT, MPI_MAX, 1, MPI_COMM_WORLD);
    CHECK(sum == (rank ? 6 : 0));
    MPI_Gather(&own, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(all[0] == 5 && all[1] == 6);
}

int main(int count, char **arguments) {
    int level, size;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(level == MPI_THREAD_MULTIPLE && size == 2);
    other = 1 - rank;
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    collectives();
    if (rank == 0)
        puts("all values are right");
    MPI_Finalize();
    return 0;
}
