// Lookups in a memcached, a hundred by each request.
#include "server.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 8000000 : 1000;
    char path[64], request[4096];
    sprintf(path, "/tmp/memcached%d", getpid());
    char *command[] = {"memcached", "-u", "root", "-m", "3000", "-t", "1", "-s", path, 0};
    int s = serve(command, path);
    for (uint64_t i = 0; i < n; i += 50) {
        char *at = request;
        for (uint64_t k = i; k < i + 50; k++)
            at += sprintf(at, "set k%lu 0 0 8%s\r\n12345678\r\n", k, k < i + 49 ? " noreply" : "");
        ask(s, request, at - request, "STORED\r\n");
    }
    REPEAT({
        char *at = request + sprintf(request, "get");
        for (int i = 0; i < 100; i++)
            at += sprintf(at, " k%lu", draw() % n);
        at += sprintf(at, "\r\n");
        ask(s, request, at - request, "END\r\n");
    });
}
