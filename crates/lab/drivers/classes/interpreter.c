// An interpreter of byte code.
#include "work.h"

enum { PUSH, ADD, MUL, JNZ, DEC, SWAP, POP };
static int64_t run(const int *code) {
    int64_t st[64];
    int sp = 0;
    int pc = 0;
    int64_t ctr = 1000;
    for (;;)
        switch (code[pc++]) {
        case PUSH:
            st[sp++] = code[pc++];
            break;
        case ADD:
            sp--;
            st[sp - 1] += st[sp];
            break;
        case MUL:
            sp--;
            st[sp - 1] *= st[sp];
            break;
        case DEC:
            ctr--;
            break;
        case SWAP: {
            int64_t t = st[sp - 1];
            st[sp - 1] = st[sp - 2];
            st[sp - 2] = t;
        } break;
        case JNZ:
            if (ctr) {
                pc = code[pc];
            } else
                pc++;
            break;
        case POP:
            return st[--sp];
        }
}
int main(int c, char **v) {
    begin(c, v);
    static const int code[] = {PUSH, 1,    PUSH, 3,   SWAP, ADD, PUSH, 5,
                               MUL,  PUSH, 7,    ADD, DEC,  JNZ, 2,    POP};
    REPEAT(sink += run(code));
}
