// The functions of MPI that the crate calls, with the same types for each library: a handle,
// which is a number in MPICH and a pointer in Open MPI, becomes a uint64_t, and a status a struct.
// Each function returns an error code of MPI.
#include <mpi.h>
#include <stdint.h>
#include <string.h>

enum { WINDOW = 64 };

struct daiko_status {
    uint64_t bytes;
    int32_t source, tag, error, cancelled;
};

#define HANDLE(type, number) ((type)(uintptr_t)(number))
#define NUMBER(handle) ((uint64_t)(uintptr_t)(handle))

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into its place");
_Static_assert(sizeof(MPI_Comm) <= sizeof(uint64_t), "a communicator fits into its place");
_Static_assert(sizeof(MPI_Message) <= sizeof(uint64_t), "a message fits into its place");

static MPI_Datatype datatype(int code) {
    switch (code) {
    case 1: return MPI_INT8_T;
    case 2: return MPI_INT16_T;
    case 3: return MPI_INT32_T;
    case 4: return MPI_INT64_T;
    case 5: return MPI_UINT8_T;
    case 6: return MPI_UINT16_T;
    case 7: return MPI_UINT32_T;
    case 8: return MPI_UINT64_T;
    case 9: return MPI_FLOAT;
    case 10: return MPI_DOUBLE;
    default: return MPI_BYTE;
    }
}

static MPI_Op operation(int code) {
    switch (code) {
    case 0: return MPI_SUM;
    case 1: return MPI_PROD;
    case 2: return MPI_MIN;
    default: return MPI_MAX;
    }
}

static int rank_of(int rank) { return rank < 0 ? MPI_ANY_SOURCE : rank; }
static int tag_of(int tag) { return tag < 0 ? MPI_ANY_TAG : tag; }

// `error` is that of the call: a status has its own in an array only.
static void fill(struct daiko_status *out, const MPI_Status *status, int error) {
    int count = 0, cancelled = 0;
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Test_cancelled(status, &cancelled);
    out->bytes = count == MPI_UNDEFINED ? 0 : (uint64_t)count;
    out->source = status->MPI_SOURCE;
    out->tag = status->MPI_TAG;
    out->error = error;
    out->cancelled = cancelled;
}

int daiko_mpi_library(char *text, int size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    int error = MPI_Get_library_version(version, &length);
    memset(text, 0, (size_t)size);
    strncpy(text, version, (size_t)size - 1);
    return error;
}

// `granted`: 0 single, 1 funneled, 2 serialized, 3 multiple; -1 if MPI was initialised before.
int daiko_mpi_init(int *granted, uint64_t *world, int *neighbours) {
    int before = 0, level = 0;
    int error = MPI_Initialized(&before);
    *granted = -1;
    if (error || before)
        return error;
    error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (error)
        return error;
    *granted = level == MPI_THREAD_MULTIPLE     ? 3
               : level == MPI_THREAD_SERIALIZED ? 2
               : level == MPI_THREAD_FUNNELED   ? 1
                                                : 0;
    // Communicators that are made of these inherit it.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    // The engine takes all messages of a communicator, so it has one of its own.
    MPI_Comm own, node;
    error = MPI_Comm_dup(MPI_COMM_WORLD, &own);
    if (error)
        return error;
    *world = NUMBER(own);
    error = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    if (error)
        return error;
    error = MPI_Comm_size(node, neighbours);
    return error ? error : MPI_Comm_free(&node);
}

int daiko_mpi_finalize(void) { return MPI_Finalize(); }

int daiko_mpi_error(int code, int *class, char *text, int size) {
    char line[MPI_MAX_ERROR_STRING];
    int length = 0;
    int error = MPI_Error_string(code, line, &length);
    memset(text, 0, (size_t)size);
    strncpy(text, line, (size_t)size - 1);
    return error ? error : MPI_Error_class(code, class);
}

int daiko_mpi_extent(uint64_t comm, int *rank, int *size) {
    int error = MPI_Comm_rank(HANDLE(MPI_Comm, comm), rank);
    return error ? error : MPI_Comm_size(HANDLE(MPI_Comm, comm), size);
}

// `colour` below 0: this rank is in no new communicator, and `made` is 0.
int daiko_mpi_split(uint64_t comm, int colour, int key, uint64_t *made) {
    MPI_Comm new = MPI_COMM_NULL;
    colour = colour < 0 ? MPI_UNDEFINED : colour;
    int error = MPI_Comm_split(HANDLE(MPI_Comm, comm), colour, key, &new);
    *made = new == MPI_COMM_NULL ? 0 : NUMBER(new);
    return error;
}


int daiko_mpi_free(uint64_t comm) {
    MPI_Comm handle = HANDLE(MPI_Comm, comm);
    return MPI_Comm_free(&handle);
}

#define POSTED(call)                                                                               \
    MPI_Request posted = MPI_REQUEST_NULL;                                                         \
    int error = call;                                                                              \
    *request = NUMBER(posted);                                                                     \
    return error

// `place` belongs to MPI until the request has ended; then `daiko_mpi_made` reads it.
int daiko_mpi_idup(uint64_t comm, uint64_t *place, uint64_t *request) {
    POSTED(MPI_Comm_idup(HANDLE(MPI_Comm, comm), (MPI_Comm *)place, &posted));
}

uint64_t daiko_mpi_made(const uint64_t *place) { return NUMBER(*(const MPI_Comm *)place); }

int daiko_mpi_isend(const void *data, int bytes, int to, int tag, uint64_t comm,
                    uint64_t *request) {
    POSTED(MPI_Isend(data, bytes, MPI_BYTE, to, tag, HANDLE(MPI_Comm, comm), &posted));
}

int daiko_mpi_irecv(void *data, int bytes, int from, int tag, uint64_t comm, uint64_t *request) {
    POSTED(MPI_Irecv(data, bytes, MPI_BYTE, rank_of(from), tag_of(tag), HANDLE(MPI_Comm, comm),
                     &posted));
}

int daiko_mpi_improbe(int from, int tag, uint64_t comm, int *found, uint64_t *message,
                      struct daiko_status *out) {
    MPI_Status status;
    MPI_Message matched = MPI_MESSAGE_NULL;
    int error = MPI_Improbe(rank_of(from), tag_of(tag), HANDLE(MPI_Comm, comm), found, &matched,
                            &status);
    if (!error && *found) {
        *message = NUMBER(matched);
        fill(out, &status, MPI_SUCCESS);
        // MPICH leaves this part of a probe's status as it was.
        out->cancelled = 0;
    }
    return error;
}

int daiko_mpi_imrecv(void *data, int bytes, uint64_t message, uint64_t *request) {
    MPI_Message matched = HANDLE(MPI_Message, message);
    POSTED(MPI_Imrecv(data, bytes, MPI_BYTE, &matched, &posted));
}

// `out` may be null. After an error the request has ended.
int daiko_mpi_test(uint64_t request, int *ended, struct daiko_status *out) {
    MPI_Request posted = HANDLE(MPI_Request, request);
    MPI_Status status;
    int error = MPI_Test(&posted, ended, out ? &status : MPI_STATUS_IGNORE);
    if (out && *ended && !error)
        fill(out, &status, error);
    return error;
}

// A window is memory of WINDOW words, in which an array of requests lies.
void daiko_mpi_clear(uint64_t *window) {
    for (int i = 0; i < WINDOW; i++)
        ((MPI_Request *)window)[i] = MPI_REQUEST_NULL;
}

void daiko_mpi_put(uint64_t *window, int at, uint64_t request) {
    ((MPI_Request *)window)[at] = HANDLE(MPI_Request, request);
}

int daiko_mpi_cancel(uint64_t *window, int at) { return MPI_Cancel(&((MPI_Request *)window)[at]); }

// Returns the number of requests that have ended, which are gone from the window.
int daiko_mpi_testsome(uint64_t *window, int count, int *places, struct daiko_status *out) {
    MPI_Request *requests = (MPI_Request *)window;
    MPI_Status statuses[WINDOW];
    int ended = 0;
    int error = MPI_Testsome(count, requests, &ended, places, statuses);
    if (error == MPI_SUCCESS || error == MPI_ERR_IN_STATUS) {
        ended = ended == MPI_UNDEFINED ? 0 : ended;
        for (int i = 0; i < ended; i++)
            fill(&out[i], &statuses[i], error ? statuses[i].MPI_ERROR : MPI_SUCCESS);
        return ended;
    }
    // The call itself has failed: each request tells for itself.
    ended = 0;
    for (int i = 0; i < count; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        int has_ended = 0;
        error = MPI_Test(&requests[i], &has_ended, statuses);
        if (error || has_ended) {
            places[ended] = i;
            fill(&out[ended++], statuses, error);
            requests[i] = MPI_REQUEST_NULL;
        }
    }
    return ended;
}

int daiko_mpi_ibarrier(uint64_t comm, uint64_t *request) {
    POSTED(MPI_Ibarrier(HANDLE(MPI_Comm, comm), &posted));
}

int daiko_mpi_ibcast(void *data, int count, int root, uint64_t comm, uint64_t *request) {
    POSTED(MPI_Ibcast(data, count, MPI_BYTE, root, HANDLE(MPI_Comm, comm), &posted));
}

int daiko_mpi_ireduce(const void *data, void *result, int count, int type, int op, int root,
                      uint64_t comm, uint64_t *request) {
    POSTED(MPI_Ireduce(data, result, count, datatype(type), operation(op), root,
                       HANDLE(MPI_Comm, comm), &posted));
}

int daiko_mpi_iallreduce(const void *data, void *result, int count, int type, int op,
                         uint64_t comm, uint64_t *request) {
    POSTED(MPI_Iallreduce(data, result, count, datatype(type), operation(op),
                          HANDLE(MPI_Comm, comm), &posted));
}

// `count` is the number of bytes from or to each rank.
int daiko_mpi_igather(const void *data, void *result, int count, int root, uint64_t comm,
                      uint64_t *request) {
    POSTED(MPI_Igather(data, count, MPI_BYTE, result, count, MPI_BYTE, root,
                       HANDLE(MPI_Comm, comm), &posted));
}

int daiko_mpi_iallgather(const void *data, void *result, int count, uint64_t comm,
                         uint64_t *request) {
    POSTED(MPI_Iallgather(data, count, MPI_BYTE, result, count, MPI_BYTE, HANDLE(MPI_Comm, comm),
                          &posted));
}

int daiko_mpi_iscatter(const void *data, void *result, int count, int root, uint64_t comm,
                       uint64_t *request) {
    POSTED(MPI_Iscatter(data, count, MPI_BYTE, result, count, MPI_BYTE, root,
                        HANDLE(MPI_Comm, comm), &posted));
}

int daiko_mpi_ialltoall(const void *data, void *result, int count, uint64_t comm,
                        uint64_t *request) {
    POSTED(MPI_Ialltoall(data, count, MPI_BYTE, result, count, MPI_BYTE, HANDLE(MPI_Comm, comm),
                         &posted));
}
