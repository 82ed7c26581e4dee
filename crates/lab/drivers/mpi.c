// Two ranks that exchange messages without fibers.
//
// Arguments: method exchanges bytes rounds. In a round rank 0 sends a message for each of the
// exchanges, with a tag of its own, and receives the answers, the first word of which is 1 more.
// Methods: `blocking`, one exchange after another by MPI_Send and MPI_Recv; `waitall`, all receives
// and sends of a round by one thread and MPI_Waitall; `threads`, a thread for each exchange, as
// `blocking`. Rank 0 prints the nanoseconds, and the sum of these words.
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "rank.h"

static int rank, words;
static uint64_t rounds;

static uint64_t *buffer(size_t count) {
    uint64_t *data = calloc(count * (size_t)words, 8);
    if (!data)
        die("out of memory");
    return data;
}

static uint64_t one(uint64_t *data, int tag) {
    uint64_t before = (uint64_t)tag;
    if (rank == 0) {
        data[0] = before;
        MPI_Send(data, words, MPI_UINT64_T, 1, tag, MPI_COMM_WORLD);
    }
    MPI_Recv(data, words, MPI_UINT64_T, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) {
        data[0]++;
        MPI_Send(data, words, MPI_UINT64_T, 0, tag, MPI_COMM_WORLD);
    }
    return data[0];
}

static uint64_t blocking(int exchanges, uint64_t times) {
    uint64_t sum = 0, *data = buffer(1);
    for (uint64_t round = 0; round < times; round++)
        for (int tag = 0; tag < exchanges; tag++)
            sum += one(data, tag);
    free(data);
    return sum;
}

static uint64_t waitall(int exchanges, uint64_t times) {
    size_t count = (size_t)exchanges;
    uint64_t sum = 0, *in = buffer(count), *out = buffer(count);
    MPI_Request *receives = malloc(count * sizeof *receives), *sends = malloc(count * sizeof *sends);
    if (!receives || !sends)
        die("out of memory");
    for (uint64_t round = 0; round < times; round++) {
        for (int i = 0; i < exchanges; i++)
            MPI_Irecv(in + i * words, words, MPI_UINT64_T, 1 - rank, i, MPI_COMM_WORLD,
                      &receives[i]);
        if (rank == 1)
            MPI_Waitall(exchanges, receives, MPI_STATUSES_IGNORE);
        for (int i = 0; i < exchanges; i++) {
            out[i * words] = rank == 0 ? (uint64_t)i : in[i * words] + 1;
            MPI_Isend(out + i * words, words, MPI_UINT64_T, 1 - rank, i, MPI_COMM_WORLD, &sends[i]);
        }
        if (rank == 0)
            MPI_Waitall(exchanges, receives, MPI_STATUSES_IGNORE);
        MPI_Waitall(exchanges, sends, MPI_STATUSES_IGNORE);
        for (int i = 0; i < exchanges; i++)
            sum += in[i * words];
    }
    free(in), free(out), free(receives), free(sends);
    return sum;
}

struct part {
    pthread_t thread;
    int tag;
    uint64_t times, sum;
};

static void *exchange(void *argument) {
    struct part *part = argument;
    uint64_t *data = buffer(1);
    for (uint64_t round = 0; round < part->times; round++)
        part->sum += one(data, part->tag);
    free(data);
    return NULL;
}

static uint64_t threads(int exchanges, uint64_t times) {
    struct part *parts = calloc((size_t)exchanges, sizeof *parts);
    if (!parts)
        die("out of memory");
    uint64_t sum = 0;
    for (int i = 0; i < exchanges; i++) {
        parts[i].tag = i;
        parts[i].times = times;
        if (pthread_create(&parts[i].thread, NULL, exchange, &parts[i]) != 0)
            die("cannot start a thread");
    }
    for (int i = 0; i < exchanges; i++) {
        pthread_join(parts[i].thread, NULL);
        sum += parts[i].sum;
    }
    free(parts);
    return sum;
}

int main(int count, char **arguments) {
    int level;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &level);
    if (count != 5)
        die("arguments: method exchanges bytes rounds");
    if (level != MPI_THREAD_MULTIPLE)
        die("the library has no MPI_THREAD_MULTIPLE");
    uint64_t (*run)(int, uint64_t) = strcmp(arguments[1], "waitall") == 0   ? waitall
                                     : strcmp(arguments[1], "threads") == 0 ? threads
                                                                            : blocking;
    int exchanges = atoi(arguments[2]), size;
    words = atoi(arguments[3]) / 8;
    words = words < 1 ? 1 : words;
    rounds = strtoull(arguments[4], NULL, 10);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        die("run two ranks, by the mpirun of this MPI library");
    run(exchanges, rounds < 10 ? rounds : 10);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t start = now();
    uint64_t sum = run(exchanges, rounds);
    if (rank == 0)
        printf("%llu %llu\n", (unsigned long long)(now() - start), (unsigned long long)sum);
    MPI_Finalize();
    return 0;
}
