# Fibers of Daiko in gdb, on live processes and core files. No register of the process is written.
# Programs contain this script, in the section `.debug_gdb_scripts`. Else: `source daiko.py`.
#
# The process says where its fibers are: crates/core/src/inspect/table.rs has the table's layout.
import re
import struct

import gdb
from gdb.unwinder import Unwinder

VERSION = 1
MAGIC = b"daiko-ps"
NOTE = b"daiko\0"
KNOWN = 1 << 31
NO_THREAD_POINTER = (1 << 32) - 1
# Bounds of what is read: the memory may be damaged.
MOST_PAGES = 1 << 14
MOST_ENTRIES = 1 << 10
MOST_RUNTIMES = 1 << 12
MOST_WORKERS = 1 << 12
MOST_TEXT = 1 << 12

# The groups of the table's words: F is a field (offset, bytes), W words (address, bytes), Q and I
# are integers of 8 and 4 bytes.
LAYOUT = (
    ("slabs", "Q:first F:next F:entries Q:entry_bytes F:start F:len F:size F:guard Q:colours Q:colour_bytes"),
    ("block", "Q:bytes F:stack_pointer F:owner F:state F:kind F:target F:packet F:refs F:name_end"
     " F:spawned_at F:runtime Q:owner_early Q:owner_finished Q:state_phase Q:state_parked"
     " Q:refs_count Q:kind_migratable Q:kind_own Q:kind_lent"),
    ("frame", "I:ip I:bx I:bp I:tp I:bytes I:reserved"),
    ("own_frame", "I:ip I:bx I:bp I:tp I:bytes I:reserved"),
    ("runtime", "Q:listed Q:most_listed F:workers F:worker_count F:lent F:lent_next F:lent_blocks"),
    ("worker", "Q:bytes F:index F:running F:thread F:active F:stuck F:counters W:counter_names"
     " F:recorded F:credit_end F:ring F:reader F:is_refused Q:ring_events"),
    ("held", "Q:notes Q:notes_locks Q:sets Q:set_count Q:set_bytes F:slots Q:slot_bytes F:lock F:by"
     " F:at Q:by_thread"),
    ("thread_waits", "Q:slots Q:slot_count Q:slot_bytes F:thread F:target"),
)
FOUND = "I:file I:len I:line I:column I:above I:align I:below I:thread_id"
FORMS = {"Q": "Q", "I": "I", "F": "II", "W": "QQ"}
# Registers that a frame keeps, by gdb's name of the processor: those of the instruction, of the
# base and of the frame. The last one is the stack pointer.
REGISTERS = {
    "i386:x86-64": ("rip", "rbx", "rbp", "rsp"),
    "aarch64": ("pc", "x19", "x29", "sp"),
    "riscv:rv64": ("pc", "s1", "fp", "sp"),
}


class Group:
    """Words of the table, by their names."""

    def __init__(self, data, at, words):
        for word in words.split():
            form, name = word.split(":")
            form = "<" + FORMS[form]
            values = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
            setattr(self, name, values if len(values) > 1 else values[0])
        self.end = at


def read(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def registers():
    processor = gdb.selected_inferior().architecture().name()
    if processor not in REGISTERS:
        raise gdb.GdbError(f"Frames of fibers are not known for {processor}: set architecture.")
    return REGISTERS[processor]


def word(address, size=8):
    return int.from_bytes(read(address, size), "little")


def part(data, field):
    """Returns the field of a struct with these bytes."""
    return int.from_bytes(data[field[0] : field[0] + min(field[1], 8)], "little")


def text(address, size):
    letters = read(address, min(size, MOST_TEXT)).decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "?" for letter in letters)


def notes():
    """Returns the addresses of the tables of all programs and libraries."""
    tables = []
    lines = gdb.execute("info files", to_string=True).splitlines()
    for line in lines:
        section = re.match(r"\s*(0x\w+) - (0x\w+) is \.note\.daiko\b", line)
        at, end = (int(section[1], 16), int(section[2], 16)) if section else (0, 0)
        while at + 28 <= end:
            owner, size, _ = struct.unpack("<III", read(at, 12))
            if owner == len(NOTE) and size == 8 and read(at + 12, owner) == NOTE:
                (distance,) = struct.unpack("<q", read(at + 20, 8))
                tables.append(at + 20 + distance)
            at += 12 + (owner + 3 & ~3) + (size + 3 & ~3)
    if not tables:
        try:
            tables.append(int(gdb.parse_and_eval("(unsigned long)&daiko_inspect")))
        except gdb.error:
            pass
    return list(dict.fromkeys(tables))


class Fiber:
    """A fiber as it is now. `frame` holds the registers with which it goes on, or is None."""

    def __init__(self, table, block_at, data):
        layout, self.id = table.block, block_at
        kind, owner = part(data, layout.kind), part(data, layout.owner)
        self.is_lent = bool(kind & layout.kind_lent)
        self.lender = part(data, layout.packet)
        self.stack_pointer = part(data, layout.stack_pointer)
        self.layout = table.own_frame if kind & layout.kind_own else table.frame
        self.worker = owner & ~(layout.owner_finished | layout.owner_early)
        self.thread = self.index = None
        self.wait = ""
        self.set_state(table, data, owner)
        self.place = table.place(part(data, layout.spawned_at))
        is_own = bool(kind & layout.kind_own) and not self.is_lent
        self.name = table.name(block_at, part(data, layout.name_end), is_own)
        if self.worker in table.workers:
            self.index, self.thread = table.workers[self.worker]

    def set_state(self, table, data, owner):
        layout = table.block
        phase = part(data, layout.state) & layout.state_phase
        if owner & ~layout.owner_early == 0:
            self.state = "unstarted"
        elif owner & layout.owner_finished:
            self.state = "finished"
        elif phase == 0 and self.id in table.running:
            self.state, self.worker = "running", table.running[self.id]
        elif phase == 0:
            self.state = "runnable"
        elif phase == layout.state_parked:
            self.state, self.wait = "parked", "park"
        else:
            self.state = "waiting"
            target = part(data, layout.target)
            kind, target = target >> 56, target & (1 << 56) - 1
            name = table.wait_kinds[kind] if kind < len(table.wait_kinds) else "?"
            self.wait = f"{name} {target:#x}" if target else name

    def frame(self):
        """Returns the registers with which the fiber goes on."""
        at, layout = self.stack_pointer, self.layout
        saved = [word(at + offset) for offset in (layout.ip, layout.bx, layout.bp)]
        return dict(zip(registers(), saved + [at + layout.bytes]))


class Table:
    def __init__(self, at):
        head = read(at, 16)
        version, size = struct.unpack_from("<II", head, 8)
        if head[:8] != MAGIC:
            raise gdb.GdbError("The table of fibers is damaged: use the core file's own program.")
        if version != VERSION:
            raise gdb.GdbError(
                f"The table of fibers has version {version}, this script knows {VERSION}:"
                " source the daiko.py of the program's release."
            )
        data = read(at, size)
        self.wait_kinds = text(*struct.unpack_from("<QQ", data, 32)).split(" ")
        end = 48
        for name, words in LAYOUT:
            group = Group(data, end, words)
            setattr(self, name, group)
            end = group.end
        if end + 8 != size:
            raise gdb.GdbError("The table of fibers contradicts itself: source the daiko.py of the program's release.")
        self.found = Group(read(struct.unpack_from("<Q", data, end)[0], 32), 0, FOUND)
        self.places = {}
        self.unread = 0
        self.set_workers()

    def set_workers(self):
        """Notes the number and the thread of each worker, and the worker of each running fiber."""
        self.workers, self.running, self.runtimes = {}, {}, []
        for slot in range(min(self.runtime.most_listed, MOST_RUNTIMES)):
            runtime = word(self.runtime.listed + 8 * slot)
            if not runtime:
                continue
            self.runtimes.append(runtime)
            first, count = (
                word(runtime + field[0], field[1])
                for field in (self.runtime.workers, self.runtime.worker_count)
            )
            for index in range(min(count, MOST_WORKERS)):
                at = first + index * self.worker.bytes
                data = read(at, self.worker.bytes)
                thread = part(data, self.worker.thread)
                self.workers[at] = (part(data, self.worker.index), thread)
                self.running[part(data, self.worker.running)] = at

    def place(self, at):
        if at not in self.places:
            try:
                file, size, line = (
                    word(at + (fact & ~KNOWN), bytes)
                    for fact, bytes in (
                        (self.found.file, 8), (self.found.len, 8), (self.found.line, 4)
                    )
                )
                self.places[at] = f"{text(file, size)}:{line}"
            except (gdb.error, OverflowError):
                self.places[at] = ""
        return self.places[at]

    def name(self, block, name_end, is_own):
        if not name_end:
            return ""
        end, found = block, self.found
        if is_own:
            end = (block - found.above & -max(found.align, 1)) - found.below
        try:
            return text(end - name_end + 1, name_end - 1)
        except gdb.error:
            return ""

    def slabs_in_use(self):
        page, seen, layout = self.slabs.first, set(), self.slabs
        while page and page not in seen and len(seen) < MOST_PAGES:
            seen.add(page)
            for index in range(min(layout.entries[1] // layout.entry_bytes, MOST_ENTRIES)):
                at = page + layout.entries[0] + index * layout.entry_bytes
                data = read(at, layout.entry_bytes)
                fields = (layout.start, layout.len, layout.size, layout.guard)
                start, length, size, guard = (part(data, field) for field in fields)
                if start > 1 and size + guard:
                    yield start, length // (size + guard), size + guard
            page = word(page + layout.next[0])

    def of_blocks(self, blocks):
        """Returns the fibers of blocks, up to the first that has never been in use.

        gcore leaves out pieces of memory, which are then zero or cannot be read. Blocks are used in
        their order: such a block is missing if it is the first, or if one in use follows."""
        is_core = in_core_file()
        zeros = 0
        for index, at in enumerate(blocks):
            try:
                data = read(at, self.block.bytes)
            except gdb.MemoryError:
                data = b""
            if not part(data, self.block.runtime):
                if not is_core:
                    return
                zeros += 1
                self.unread += index == 0
                continue
            # The first one has been counted.
            self.unread += zeros - (zeros == index and zeros > 0)
            zeros = 0
            if part(data, self.block.refs) & self.block.refs_count:
                yield Fiber(self, at, data)

    def fibers(self):
        layout = self.slabs
        for start, count, stride in self.slabs_in_use():
            yield from self.of_blocks(
                start + (index + 1) * stride
                - index % layout.colours * layout.colour_bytes - self.block.bytes
                for index in range(count)
            )
        yield from self.lent_fibers()

    def lent_fibers(self):
        layout = self.runtime
        for runtime in self.runtimes:
            batch = word(runtime + layout.lent[0])
            for _ in range(MOST_PAGES):
                if not batch:
                    break
                first, count = batch + layout.lent_blocks[0], layout.lent_blocks[1]
                blocks = range(first, first + count, self.block.bytes)
                unread = self.unread
                yield from self.of_blocks(blocks)
                # A batch may be unused.
                self.unread = unread
                batch = word(batch + layout.lent_next[0])


def all_fibers():
    """Returns all fibers, and the number of stacks that cannot be read."""
    if not gdb.selected_thread():
        raise gdb.GdbError("There is no process: start or attach to one, or open a core file.")
    try:
        tables = [Table(at) for at in notes()]
        if not tables:
            raise gdb.GdbError("This process has no runtime of Daiko.")
        fibers = [fiber for table in tables for fiber in table.fibers()]
    except (gdb.MemoryError, struct.error, OverflowError) as error:
        raise gdb.GdbError(f"The table of fibers cannot be read: {error}") from error
    return fibers, sum(table.unread for table in tables)


def in_core_file():
    connection = getattr(gdb.selected_inferior(), "connection", None)
    return connection is not None and connection.type == "core"


def tell_unread(count):
    if count:
        print(
            f"At least {count} stacks are missing in this core file, with the fibers on them:"
            " write it with `daiko core PID`, not gcore."
        )


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


def number(register):
    return int(register) & (1 << 64) - 1


def ends(frame):
    """Returns the instruction and stack pointers of a frame of gdb's."""
    names = registers()
    return tuple(number(frame.read_register(name)) for name in (names[0], names[-1]))


class Chosen:
    """The fiber that is shown as the caller of a thread's innermost frame."""

    frame = None
    thread = registers = None

    @classmethod
    def set(cls, fiber):
        cls.clear()
        thread = gdb.selected_thread()
        top = gdb.newest_frame()
        cls.registers = ends(top)
        cls.thread, cls.frame = thread.ptid, fiber.frame()
        gdb.invalidate_cached_frames()

    @classmethod
    def clear(cls, *_):
        if cls.frame:
            cls.frame = None
            gdb.invalidate_cached_frames()


class Lenders:
    """The fibers that kernel threads have lent, by their lenders, while the process stands still."""

    known = None

    @classmethod
    def forget(cls, *_):
        cls.known = None

    @classmethod
    def get(cls):
        if cls.known is None:
            cls.known = {}
            try:
                fibers = [fiber for at in notes() for fiber in Table(at).lent_fibers()]
            except (gdb.error, gdb.GdbError, struct.error, OverflowError):
                fibers = []
            waiting = (fiber for fiber in fibers if fiber.is_lent and fiber.state in ("parked", "waiting"))
            cls.known = {fiber.lender: fiber for fiber in waiting}
        return cls.known


class FiberUnwinder(Unwinder):
    def __init__(self):
        super().__init__("daiko")

    def __call__(self, pending):
        try:
            saved = self.caller(pending)
            if saved is None:
                return None
            ip, _, _, sp = registers()
            at = pending.read_register(ip)
        except (gdb.error, gdb.GdbError, ValueError):
            return None
        # As if both frames were on one stack: gdb refuses a caller that lies below.
        info = pending.create_unwind_info(FrameId(gdb.Value(saved[sp] - 8), at))
        for name, value in saved.items():
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(value).cast(kind))
        return info

    @staticmethod
    def caller(pending):
        if Chosen.frame:
            thread = gdb.selected_thread()
            if thread and thread.ptid == Chosen.thread and ends(pending) == Chosen.registers:
                return Chosen.frame
        # A kernel thread that has lent its context, which only those of x86-64 do, sleeps in a
        # futex: the lender's first word. Frames above the first lack the register.
        fiber = Lenders.get().get(number(pending.read_register("rdi")))
        return fiber.frame() if fiber else None


def show(fiber, command):
    """Runs the command with the fiber's frames. Returns the reason if there are none."""
    if fiber.state == "running":
        Chosen.clear()
        for thread in gdb.selected_inferior().threads():
            if fiber.thread and fiber.thread in thread.ptid[1:]:
                thread.switch()
                gdb.execute(command)
                return None
        return "it runs, and its worker's thread is not here"
    if fiber.state in ("unstarted", "finished"):
        return f"it is {fiber.state} and has no frames"
    try:
        Chosen.set(fiber)
    except gdb.MemoryError:
        return "its stack is missing in this core file: write it with `daiko core PID`, not gcore"
    gdb.execute(command)
    return None


def title(number, fiber):
    name = f' "{fiber.name}"' if fiber.name else ""
    return f"Fiber {number} ({fiber.id:#x}{name}, {fiber.wait or fiber.state}):"


class InfoFibers(gdb.Command):
    """List the fibers of Daiko: number, id, state, name, wait, worker and place of the spawn."""

    def __init__(self):
        super().__init__("info fibers", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        fibers, unread = all_fibers()
        print(f"{'Num':>4} {'Id':18} {'State':9} {'Name':16} {'Wait':22} {'Worker':6} Spawned at")
        for index, fiber in enumerate(fibers, 1):
            worker = "-" if fiber.index is None else fiber.index
            print(
                f"{index:4} {fiber.id:<#18x} {fiber.state:9} {fiber.name or '-':16}"
                f" {fiber.wait or '-':22} {worker:<6} {fiber.place or '-'}"
            )
        tell_unread(unread)


class FiberCommand(gdb.Command):
    """Show the backtrace of a fiber of Daiko: `fiber N`, with N as in `info fibers`.
Frame 0 remains that of the thread; the fiber's frames are its callers. `fiber` or `fiber 0` returns
to the thread."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK, prefix=True)

    def invoke(self, argument, from_tty):
        if argument.strip() in ("", "0"):
            return Chosen.clear()
        ((index, fiber),), _ = choose([argument.strip()])
        print(title(index, fiber))
        reason = show(fiber, "backtrace")
        if reason:
            raise gdb.GdbError(f"Fiber {index} cannot be shown: {reason}.")


def choose(words):
    fibers, unread = all_fibers()
    if words == ["all"]:
        return list(enumerate(fibers, 1)), unread
    chosen = []
    for given in words:
        if not given.isdecimal() or not 1 <= int(given) <= len(fibers):
            raise gdb.GdbError(f"There is no fiber {given}: `info fibers` lists them.")
        chosen.append((int(given), fibers[int(given) - 1]))
    return chosen, unread


class FiberApply(gdb.Command):
    """Run a command for fibers of Daiko: `fiber apply all bt`, `fiber apply 3 5 bt`."""

    def __init__(self):
        super().__init__("fiber apply", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        given = re.match(r"\s*(all\b|\d+(?:\s+\d+)*)\s+(\S.*)", argument)
        if not given:
            raise gdb.GdbError("Say which fibers and which command: `fiber apply all bt`.")
        chosen, unread = choose(given[1].split())
        before = gdb.selected_thread()
        try:
            for index, fiber in chosen:
                print(f"\n{title(index, fiber)}")
                reason = show(fiber, given[2])
                if reason:
                    print(f"Not shown: {reason}.")
                before.switch()
        finally:
            Chosen.clear()
            before.switch()
        tell_unread(unread)


for event in ("cont", "exited", "new_objfile", "memory_changed", "stop"):
    getattr(gdb.events, event).connect(Lenders.forget)
for event in ("cont", "exited"):
    getattr(gdb.events, event).connect(Chosen.clear)
gdb.unwinder.register_unwinder(None, FiberUnwinder(), replace=True)
InfoFibers()
FiberCommand()
FiberApply()
