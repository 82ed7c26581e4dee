// Ranks in a sorted set of a Redis, by a script in it.
#include "server.h"

int main(int c, char **v) {
    begin(c, v);
    uint64_t n = large ? 5000000 : 1000;
    char path[64], request[4096], script[1024];
    sprintf(path, "/tmp/redis%d", getpid());
    char *command[] = {"redis-server", "--port",    "0", "--save", "", "--unixsocket", path,
                       "--lua-time-limit", "100000", 0};
    int s = serve(command, path);
    sprintf(script, "for i = 1, %lu do redis.call('zadd', 'z', i * 7919 %% 1000003, i) end return 1", n);
    int len = sprintf(request, "*3\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n", strlen(script),
                      script);
    ask(s, request, len, "\r\n");
    sprintf(script,
            "for i = 1, 1000 do redis.call('zrank', 'z', math.random(%lu)) end "
            "return 1",
            n);
    len = sprintf(request, "*3\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n", strlen(script),
                  script);
    REPEAT(ask(s, request, len, "\r\n"));
}
