//! The table of this process's runtimes, for readers from outside: `daiko_core::inspect`.
//!
//! All that it describes is data that the runtime has in any case. Nothing here is on a path of a
//! fiber.

use std::arch::global_asm;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Once;

use daiko_context::{FRAME, OWN_FRAME, overflow};
use daiko_core::inspect::{Found, MAGIC, NOTE_OWNER, NOTE_TYPE, Table, VERSION, Words};
use daiko_home::Blocks;

use crate::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::deadlock::{self, KIND_NAMES};
use crate::fiber::ControlBlock;
use crate::runtime::RuntimeInner;
use crate::worker::Worker;

/// Number of runtimes that are listed. More are known by their fibers only.
const MOST_LISTED: usize = 64;

static RUNTIMES: [AtomicPtr<RuntimeInner>; MOST_LISTED] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_LISTED];

/// The words of a [`Found`], written at the start of the first runtime.
static FOUND: [AtomicU32; size_of::<Found>() / 4] =
    [const { AtomicU32::new(0) }; size_of::<Found>() / 4];

#[used]
static TABLE: Table = Table {
    magic: MAGIC,
    version: VERSION,
    bytes: size_of::<Table>() as u32,
    release: Words::new(env!("CARGO_PKG_VERSION")),
    wait_kinds: Words::new(KIND_NAMES),
    slabs: overflow::LIST,
    block: ControlBlock::LAYOUT,
    frame: FRAME,
    own_frame: OWN_FRAME,
    runtime: RuntimeInner::layout((&raw const RUNTIMES).cast(), MOST_LISTED),
    worker: Worker::LAYOUT,
    held: deadlock::HELD_LAYOUT,
    thread_waits: deadlock::THREAD_WAITS_LAYOUT,
    found: (&raw const FOUND).cast(),
};

// The note, which survives the removal of symbols, a script, and a symbol for debuggers. The symbol
// is weak: a program may contain two releases of this crate, each with its own note.
global_asm!(
    ".pushsection .note.daiko, \"a\", @note",
    ".balign 4",
    ".long {owner_bytes}",
    ".long 8",
    ".long {kind}",
    ".asciz \"daiko\"",
    ".balign 4",
    ".quad {table} - .",
    // The linker keeps notes, and all that they refer to.
    #[cfg(target_arch = "x86_64")]
    ".reloc ., R_X86_64_NONE, .Ldaiko_gdb_script",
    #[cfg(target_arch = "aarch64")]
    ".reloc ., R_AARCH64_NONE, .Ldaiko_gdb_script",
    #[cfg(target_arch = "riscv64")]
    ".reloc ., R_RISCV_NONE, .Ldaiko_gdb_script",
    ".popsection",
    // The script for gdb ("Debugging with GDB", "The .debug_gdb_scripts section"): the kind of the
    // entry, a name, a line break, the text. Loaded with the program, as linkers leave other
    // sections of such names out of builds without debug information, and so does the attribute
    // `debugger_visualizer`; no page of it is touched.
    ".pushsection .debug_gdb_scripts, \"a\", @progbits",
    ".Ldaiko_gdb_script:",
    ".byte 4",
    ".ascii \"daiko.py\\n\"",
    concat!(".incbin \"", env!("CARGO_MANIFEST_DIR"), "/gdb/daiko.py\""),
    ".byte 0",
    ".popsection",
    ".weak daiko_inspect",
    ".set daiko_inspect, {table}",
    owner_bytes = const NOTE_OWNER.len(),
    kind = const NOTE_TYPE,
    table = sym TABLE,
);

/// The text of the script, so that a change of it is one of this crate to the compiler.
const _: &[u8] = include_bytes!("../gdb/daiko.py");

/// Returns the address of the table.
pub(crate) fn table() -> u64 {
    (&raw const TABLE).addr() as u64
}

/// Lists `runtime`, which has just been made.
pub(crate) fn enter(runtime: NonNull<RuntimeInner>) {
    static FIND: Once = Once::new();
    FIND.call_once(find);
    // Release: a debugger that finds the runtime finds its fields.
    let free = |slot: &&AtomicPtr<_>| {
        let null = ptr::null_mut();
        let entered =
            slot.compare_exchange(null, runtime.as_ptr(), Ordering::Release, Ordering::Relaxed);
        entered.is_ok()
    };
    let _ = RUNTIMES.iter().find(free);
}

/// Removes `runtime` from the list, before its memory is freed.
pub(crate) fn leave(runtime: NonNull<RuntimeInner>) {
    for slot in &RUNTIMES {
        let null = ptr::null_mut();
        let _ = slot.compare_exchange(runtime.as_ptr(), null, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Finds out the facts that are not known before the program runs.
fn find() {
    let [file, len, line, column] = location_layout().unwrap_or([0; 4]);
    let [above, align, below] = Blocks::get().map_or([0; 3], |blocks| blocks.shape());
    let facts = [file, len, line, column, above as u32, align as u32, below as u32];
    for (word, fact) in FOUND.iter().zip(facts) {
        word.store(fact, Ordering::Relaxed);
    }
}

/// Notes the offset from the thread pointer of a thread that lends its context to the kernel's id
/// of the thread.
pub fn note_thread_id(offset: u32) {
    FOUND[FOUND.len() - 1].store(Found::KNOWN | offset, Ordering::Relaxed);
}

/// Returns the offsets of the address of the file's name, its length, the line and the column in a
/// [`Location`], each as a fact. `std` does not tell them: they are looked for.
fn location_layout() -> Option<[u32; 4]> {
    const BYTES: usize = size_of::<Location<'_>>();
    let place = Location::caller();
    if BYTES != 2 * size_of::<usize>() + 2 * size_of::<u32>() {
        return None;
    }
    // SAFETY: a live value. It has no padding: the four fields take all of its bytes.
    let bytes: [u8; BYTES] = unsafe { ptr::from_ref(place).cast::<[u8; BYTES]>().read() };
    let find = |field: &[u8]| {
        let mut places = (0..BYTES)
            .step_by(field.len())
            .filter(|&at| bytes.get(at..at + field.len()) == Some(field));
        let at = places.next()?;
        // Two places with one value tell nothing.
        places.next().is_none().then_some(Found::KNOWN | at as u32)
    };
    let file = place.file();
    let address = file.as_ptr().addr().to_ne_bytes();
    Some([
        find(&address)?,
        find(&file.len().to_ne_bytes())?,
        find(&place.line().to_ne_bytes())?,
        find(&place.column().to_ne_bytes())?,
    ])
}
