/* Processes that use a segment beside this one, until they are killed. */
#ifndef PEER_H
#define PEER_H
#include "check.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct peer {
    pid_t process;
    int start[2], done[2];
};

static char path[32];

static inline void signals(const int *pipe) { CHECK(write(pipe[1], "", 1), 1); }
static inline void awaits(const int *pipe) { char byte; CHECK(read(pipe[0], &byte, 1), 1); }

/* Starts a process that does its part, tells so, and waits to be killed. */
static inline void begin(struct peer *peer, void (*part)(daiko_segment *))
{
    daiko_segment *segment;
    OK(pipe(peer->start));
    OK(pipe(peer->done));
    peer->process = fork();
    if (peer->process != 0)
        return;
    OK(prctl(PR_SET_PDEATHSIG, SIGKILL));
    awaits(peer->start);
    OK(daiko_segment_open(&segment, path, DAIKO_OPEN, 0));
    part(segment);
    signals(peer->done);
    for (;;)
        pause();
}

static inline void kill_peer(struct peer *peer)
{
    OK(kill(peer->process, SIGKILL));
    CHECK(waitpid(peer->process, NULL, 0), peer->process);
}
#endif
