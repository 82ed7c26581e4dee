/* MPI in C programs with threads of Daiko: a wait for a request gives up the worker. */
#ifndef DAIKO_MPI_H
#define DAIKO_MPI_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As MPI_Wait. Called by a fiber of libdaiko or a thread of `daiko run`, its worker runs other
   threads meanwhile. It needs MPI_THREAD_MULTIPLE, and is MPI_Wait otherwise. */
int daiko_mpi_wait(MPI_Request *request, MPI_Status *status);

#ifdef __cplusplus
}
#endif

#endif
