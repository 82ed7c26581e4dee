// A server, rank 0, and the clients that ask it, all other ranks.
//
// Arguments: words window_ns server_cpu client_cpu folder [added]. A question has several words;
// the answer is each of them plus `added`, which is 1 unless a test wants a wrong answer. Each
// client first asks in batches for the length of the window, then call by call for the same length,
// as in the lab's other methods.
//
// Each client leaves a file in the folder, named by its rank, of 64-bit words: its calls, the time
// of all batches, the calls of a batch, the number of batches, the time of each batch, and the time
// of each single call. A wrong answer leaves a file "wrong" with the expected and the received
// word.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "rank.h"

enum { QUESTION, END, MOST_WORDS = 8192 };
enum { BATCH_NS = 25000, MOST_CALLS = 1 << 16, MOST_BATCHES = 8192, MOST_SINGLES = 1 << 18 };

struct times {
    uint64_t calls, elapsed, batch_calls, batches;
    uint64_t batch[MOST_BATCHES], single[MOST_SINGLES];
};

static int words;
static uint64_t window, added, number;
static const char *folder;
static MPI_Comm clients;

static void bind_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("cannot bind to a CPU");
}

static void save(const char *name, const void *first, size_t first_words, const void *second,
                 size_t second_words) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(first, 8, first_words, file) != first_words ||
        fwrite(second, 8, second_words, file) != second_words || fclose(file) != 0)
        die("cannot write the measurement");
}

static void serve(int open) {
    uint64_t message[MOST_WORDS];
    while (open) {
        MPI_Status status;
        MPI_Recv(message, words, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 &status);
        if (status.MPI_TAG == END) {
            open--;
            continue;
        }
        for (int i = 0; i < words; i++)
            message[i] += added;
        MPI_Send(message, words, MPI_UINT64_T, status.MPI_SOURCE, QUESTION, MPI_COMM_WORLD);
    }
}

static void check(uint64_t expected, uint64_t found) {
    if (__builtin_expect(expected == found, 1))
        return;
    uint64_t both[] = {expected, found};
    save("wrong", both, 2, NULL, 0);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void call(void) {
    uint64_t message[MOST_WORDS];
    uint64_t question = number++;
    for (int i = 0; i < words; i++)
        message[i] = question + (uint64_t)i;
    MPI_Send(message, words, MPI_UINT64_T, 0, QUESTION, MPI_COMM_WORLD);
    MPI_Recv(message, words, MPI_UINT64_T, 0, QUESTION, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < words; i++)
        check(question + (uint64_t)i + 1, message[i]);
}

static void batch(uint64_t calls) {
    for (uint64_t i = 0; i < calls; i++)
        call();
}

// The faster of two batches, as other processes may have had the CPU during one of them.
static uint64_t quickest_of_two(uint64_t calls) {
    uint64_t quickest = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        uint64_t start = now();
        batch(calls);
        uint64_t time = now() - start;
        quickest = time < quickest ? time : quickest;
    }
    return quickest;
}

// Waits for all clients. Returns the arrival time of the last one.
static uint64_t gate(void) {
    uint64_t own = now(), last;
    MPI_Allreduce(&own, &last, 1, MPI_UINT64_T, MPI_MAX, clients);
    return last;
}

// Number of calls that take the quickest client BATCH_NS, as far as the time suffices to find it;
// common to all clients.
static uint64_t common_batch(void) {
    uint64_t own = 1, most;
    uint64_t until = gate() + window;
    while (own < MOST_CALLS && quickest_of_two(own) < BATCH_NS && now() < until)
        own *= 2;
    MPI_Allreduce(&own, &most, 1, MPI_UINT64_T, MPI_MAX, clients);
    return most;
}

static void in_batches(struct times *times) {
    uint64_t start = gate(), time = now();
    while (time < start + window) {
        uint64_t before = time;
        batch(times->batch_calls);
        time = now();
        times->calls += times->batch_calls;
        times->elapsed = time - start;
        if (times->batches < MOST_BATCHES)
            times->batch[times->batches++] = time - before;
    }
}

static size_t one_by_one(struct times *times) {
    uint64_t start = gate(), time = now();
    size_t singles = 0;
    while (time < start + window && singles < MOST_SINGLES) {
        uint64_t before = now();
        call();
        time = now();
        times->single[singles++] = time - before;
    }
    return singles;
}

static void ask(int rank) {
    struct times *times = malloc(sizeof *times);
    if (!times)
        die("out of memory");
    memset(times, 0, sizeof *times);
    times->batch_calls = common_batch();
    in_batches(times);
    size_t singles = one_by_one(times);
    MPI_Send(NULL, 0, MPI_UINT64_T, 0, END, MPI_COMM_WORLD);
    char name[32];
    snprintf(name, sizeof name, "%d", rank);
    save(name, times, 4 + times->batches, times->single, singles);
}

int main(int count, char **arguments) {
    // The parent may be killed; this process would then use the CPUs for nothing.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MPI_Init(&count, &arguments);
    if (count < 6)
        die("arguments: words window_ns server_cpu client_cpu folder [added]");
    words = atoi(arguments[1]);
    window = strtoull(arguments[2], NULL, 10);
    folder = arguments[5];
    added = count > 6 ? strtoull(arguments[6], NULL, 10) : 1;
    if (words < 1 || words > MOST_WORDS)
        die("a message has 1 to 8192 words");
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &clients);
    bind_to(atoi(arguments[rank ? 4 : 3]));
    if (rank)
        ask(rank);
    else
        serve(size - 1);
    MPI_Finalize();
    return 0;
}
