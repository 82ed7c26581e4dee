// A Lua program that looks up random entries of a table.
#include "work.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

int main(int c, char **v) {
    begin(c, v);
    lua_State *l = luaL_newstate();
    luaL_openlibs(l);
    lua_pushinteger(l, large ? 30000000 : 1000);
    lua_setglobal(l, "n");
    if (luaL_dostring(l, "t = {} for i = 1, n do t[i * 7919] = i end "
                         "function step() local s, r, t, n = 0, math.random, t, n "
                         "for i = 1, 100 do s = s + t[r(n) * 7919] end return s end"))
        return 1;
    REPEAT({
        lua_getglobal(l, "step");
        lua_call(l, 0, 1);
        sink += lua_tointeger(l, -1);
        lua_pop(l, 1);
    });
}
