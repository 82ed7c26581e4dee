// A server as the working process, and a connection to it.
#ifndef SERVER_H
#define SERVER_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "work.h"

// Starts the server, which listens at the socket `path`, and connects to it.
static int serve(char *const *command, const char *path) {
    worker = fork();
    if (!worker) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout))
            exit(1);
        execvp(command[0], command);
        _exit(127);
    }
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    strcpy(at.sun_path, path);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    // Until the server listens.
    for (int i = 0; i < 1000 && connect(s, (struct sockaddr *)&at, sizeof at); i++)
        usleep(10000);
    unlink(path);
    if (clock_getcpuclockid(worker, &worker_clock))
        exit(1);
    return s;
}

// Sends a request and reads the reply until it ends with `end`.
static void ask(int s, const char *request, size_t len, const char *end) {
    static char reply[1 << 16];
    size_t have = 0, last = strlen(end);
    if (write(s, request, len) != (ssize_t)len)
        exit(1);
    do {
        // Only the end is of interest.
        if (have > sizeof reply / 2)
            memmove(reply, reply + have - last, last), have = last;
        ssize_t got = read(s, reply + have, sizeof reply - have);
        if (got <= 0)
            exit(1);
        have += got;
    } while (have < last || memcmp(reply + have - last, end, last));
}

#endif
