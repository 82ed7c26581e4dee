// Prints the version of the library, for the build script.
#include <mpi.h>
#include <stdio.h>

int main(void) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(version, &length))
        return 1;
    fputs(version, stdout);
    return 0;
}
