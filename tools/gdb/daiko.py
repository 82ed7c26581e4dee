# For gdb: `source daiko.py`. Backtraces of a program under `daiko run` then go on where its threads
# wait, in a live program and in a core file.
#
# While a thread waits, its kernel thread sleeps on another stack, in a futex: the first word of a
# `Lender` (crates/rt/src/fiber/lender.rs). That leads to the control block of the thread's fiber
# (crates/rt/src/fiber/control.rs), of which the first word is the stack pointer. There lie the words that `switch_own` has pushed
# (crates/context/src/arch/x86_64/switch.rs). The caller of the kernel thread's frame is read there.
import gdb
from gdb.unwinder import Unwinder

ENGINE = "libdaiko_pthread.so"
LENT = 1
LENT_AS = 40
STATE = 16
SUSPENDED = 3


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


def number(register):
    return int(register) & (1 << 64) - 1


def word(address, size=8):
    memory = gdb.selected_inferior().read_memory(address, size)
    return int.from_bytes(memory.tobytes(), "little")


def saved_frame(futex):
    """Returns the address of the frame of the context that is lent and waits, or None."""
    if word(futex, 4) != LENT:
        return None
    fiber = word(futex + LENT_AS)
    return word(fiber) if word(fiber + STATE, 4) & SUSPENDED else None


class Lent(Unwinder):
    def __init__(self):
        super().__init__("daiko")

    def __call__(self, pending):
        try:
            # Frames above the first lack the register of the futex.
            pc, futex = (pending.read_register(name) for name in ("rip", "rdi"))
            is_engine = (gdb.solib_name(number(pc)) or "").endswith(ENGINE)
            frame = saved_frame(number(futex)) if is_engine else None
        except gdb.error:
            return None
        if frame is None:
            return None
        # As if both frames were on one stack: gdb refuses a caller that lies below.
        info = pending.create_unwind_info(FrameId(gdb.Value(frame), pc))
        saved = {"rip": word(frame), "rbx": word(frame + 16), "rbp": word(frame + 24), "rsp": frame + 32}
        for name, value in saved.items():
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(value).cast(kind))
        return info


gdb.unwinder.register_unwinder(None, Lent(), replace=True)
