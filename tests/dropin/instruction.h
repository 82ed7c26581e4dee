// System calls by an instruction of the program, as some libraries make them.
#ifndef DAIKO_DROPIN_INSTRUCTION_H
#define DAIKO_DROPIN_INSTRUCTION_H
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

// Makes the call. Returns its result, or an error number below 0.
static inline long call(long number, long a, long b, long c, long d) {
#ifdef __x86_64__
    register long fourth __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
#else
    long result = syscall(number, a, b, c, d);
    return result == -1 ? -errno : result;
#endif
}

static inline long futex(int *address, long operation, long value) {
    return call(SYS_futex, (long)address, operation, value, 0);
}
#endif
