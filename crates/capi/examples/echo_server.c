/* An echo server on 127.0.0.1, with one fiber for each connection, and a client that tries it.
 *
 *     cc echo_server.c $(pkg-config --cflags --libs daiko) -o echo_server */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <daiko.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 20 };

static struct sockaddr_in server;
static int listener;

/* Sends all bytes; returns 0 or a code. */
static int send_all(int fd, const char *bytes, size_t size)
{
    size_t done = 0;
    int code = 0;
    for (; size > 0 && code == 0; bytes += done, size -= done)
        code = daiko_write(fd, bytes, size, NULL, &done);
    return code;
}

static void *echo(void *socket)
{
    int fd = (int)(intptr_t)socket;
    char bytes[4096];
    size_t size;
    while (daiko_read(fd, bytes, sizeof bytes, NULL, &size) == 0 && size > 0)
        if (send_all(fd, bytes, size) != 0)
            break;
    close(fd);
    return NULL;
}

static void *serve(void *none)
{
    int fd;
    /* A cancel of this fiber ends the loop. */
    while (daiko_accept(listener, NULL, NULL, NULL, &fd) == 0)
        if (daiko_spawn(NULL, NULL, echo, (void *)(intptr_t)fd) != 0)
            close(fd);
    return none;
}

static void *talk(void *number)
{
    char text[32], answer[32];
    size_t size, got = 0, done = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0), code;
    snprintf(text, sizeof text, "client %d", (int)(intptr_t)number);
    size = strlen(text);
    code = daiko_connect(fd, (struct sockaddr *)&server, sizeof server, NULL);
    if (code == 0)
        code = send_all(fd, text, size);
    while (code == 0 && got < size) {
        code = daiko_read(fd, answer + got, size - got, NULL, &done);
        if (code == 0 && done == 0)
            code = EPIPE;
        got += done;
    }
    close(fd);
    return code == 0 && memcmp(text, answer, size) == 0 ? NULL : (void *)"wrong";
}

static void *run(void *none)
{
    daiko_fiber *acceptor, *clients[CLIENTS];
    void *fault, *faults = none;
    int i;
    if (daiko_spawn(&acceptor, NULL, serve, NULL) != 0)
        return (void *)"no fiber";
    for (i = 0; i < CLIENTS; i++)
        if (daiko_spawn(&clients[i], NULL, talk, (void *)(intptr_t)i) != 0)
            return (void *)"no fiber";
    for (i = 0; i < CLIENTS; i++)
        if (daiko_join(clients[i], &fault) != 0 || fault != NULL)
            faults = (void *)"a client got a wrong answer";
    daiko_cancel(acceptor);
    return daiko_join(acceptor, NULL) == 0 ? faults : (void *)"no end";
}

int main(void)
{
    socklen_t size = sizeof server;
    void *fault = (void *)"no runtime";
    server.sin_family = AF_INET;
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&server, size) != 0 || listen(listener, 64) != 0 ||
        getsockname(listener, (struct sockaddr *)&server, &size) != 0)
        return 1;
    daiko_runtime_run(NULL, run, NULL, &fault);
    printf("%s\n", fault ? (char *)fault : "20 clients were answered");
    return fault != NULL;
}
