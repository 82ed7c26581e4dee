/* A client and a server of another process, which share a segment.
 *
 *     cc segment_client.c $(pkg-config --cflags --libs daiko) -o segment_client */
#define _POSIX_C_SOURCE 200809L
#include <daiko.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[32];

static size_t squares(void *none, unsigned char *memory, size_t size, size_t room)
{
    uint64_t number;
    (void)none;
    if (size != sizeof number || room < size)
        return 0;
    memcpy(&number, memory, size);
    number *= number;
    memcpy(memory, &number, size);
    return size;
}

/* Serves until it is killed. */
static int serve(int ready)
{
    daiko_segment *segment;
    daiko_server *server;
    int code = daiko_segment_open(&segment, path, DAIKO_CREATE, 1 << 20);
    if (code == 0)
        code = daiko_service_serve(&server, segment, "squares", 16, 64, squares, NULL);
    if (code != 0 || write(ready, "", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static int call(void)
{
    daiko_segment *segment;
    daiko_client *client;
    uint64_t number = 7, square = 0;
    size_t size;
    int code = daiko_segment_open(&segment, path, DAIKO_OPEN, 0);
    if (code != 0)
        return code;
    /* The processes that are attached keep the memory. */
    daiko_segment_remove(segment);
    code = daiko_client_connect(&client, segment, "squares");
    if (code == 0) {
        code = daiko_client_call(client, &number, sizeof number, NULL, &square, sizeof square, &size);
        daiko_client_close(client);
    }
    daiko_segment_detach(segment);
    if (code == 0)
        printf("7 squared is %lu\n", (unsigned long)square);
    return code;
}

int main(void)
{
    int ready[2], code = 1;
    char byte;
    pid_t server;
    snprintf(path, sizeof path, "daiko-squares-%d", (int)getpid());
    /* Before the first call of Daiko: a fork has no workers. */
    if (pipe(ready) != 0 || (server = fork()) < 0)
        return 1;
    if (server == 0)
        _exit(serve(ready[1]));
    close(ready[1]);
    if (read(ready[0], &byte, 1) == 1)
        code = call();
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    if (code != 0)
        fprintf(stderr, "segment_client: %s\n", daiko_strerror(code));
    return code;
}
