// Code common to the drivers of MPI in C.
#ifndef DAIKO_RANK_H
#define DAIKO_RANK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static void die(const char *line) {
    fprintf(stderr, "%s\n", line);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#endif
