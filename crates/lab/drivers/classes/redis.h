// Scripts in a Redis as the working process.
#ifndef REDIS_H
#define REDIS_H

#include "server.h"

static void eval(int s, const char *script) {
    char request[4096];
    int len = sprintf(request, "*3\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n", strlen(script),
                      script);
    ask(s, request, len, "\r\n");
}

// Fills a Redis by a command for each `i` up to `n`, and repeats a thousand commands `query`, in
// which %lu is `n`.
static void redis(uint64_t n, const char *fill, const char *query) {
    char path[64], script[1024], each[512];
    sprintf(path, "/tmp/redis%d", getpid());
    char *command[] = {"redis-server", "--port",    "0", "--save", "", "--unixsocket", path,
                       "--lua-time-limit", "100000", 0};
    int s = serve(command, path);
    sprintf(script, "for i = 1, %lu do redis.call(%s) end return 1", n, fill);
    eval(s, script);
    sprintf(each, query, n);
    sprintf(script, "for i = 1, 1000 do redis.call(%s) end return 1", each);
    REPEAT(eval(s, script));
}

#endif
