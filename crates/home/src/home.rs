//! Blocks that the C library builds: those of real threads, the *homes*.
//!
//! A home is started on the upper end of the context's own stack, so the library puts the block
//! there. The home's kernel thread then sleeps for as long as its thread pointer is lent to the
//! context, and ends as any thread does.
//!
//! ```text
//! end of the stack                                      thread pointer
//! | the context's frames .. | signals | frames of the   | static     | control | Home |
//!                           |         | kernel thread   | TLS        | block   |      ^ end
//!                           ^ start
//! ```
//!
//! While the context runs, the kernel thread touches no thread-local, as these are the context's.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use daiko_context::seat;
use daiko_sys::memory::Mapping;
use daiko_sys::{Scope, futex, kernel_local, thread};

use crate::abi::{KEYS_PER_TABLE, Key, TlsOffset, Unsupported, at, find, function, rseq};
use crate::atomic::{AtomicU32, Ordering};
use crate::ending::ROUNDS;
use crate::identity;
use crate::light::ThreadLocalsError;

/// Stages of a home. The context's side writes all but those of its thread.
mod stage {
    /// There is no thread.
    pub(super) const NONE: u32 = 0;
    /// The thread has not slept yet.
    pub(super) const STARTS: u32 = 1;
    /// Written by the thread: it sleeps, and its thread pointer is lent.
    pub(super) const LENT: u32 = 2;
    /// Written by the thread: it cannot lend its thread pointer, and ends.
    pub(super) const REFUSED: u32 = 3;
    /// The thread ends.
    pub(super) const ENDS: u32 = 4;
}

/// A home, at the end of a stack. One thread at a time uses it, and the home's own kernel thread.
#[repr(C, align(64))]
struct Home {
    stage: AtomicU32,
    /// The process that has the thread: a forked child lacks it.
    process: Cell<u32>,
    thread: Cell<libc::pthread_t>,
    /// The lowest byte of the stack.
    stack: Cell<*mut u8>,
    /// Written by the thread while it starts: its thread pointer.
    pointer: Cell<usize>,
    /// Written by the thread while it starts: an address in its frame.
    frame: Cell<usize>,
    /// The area of restartable sequences, if the library has one.
    rseq: Option<TlsOffset>,
}

/// Bytes of a [`Home`].
const HEADER: usize = size_of::<Home>();

/// The place in which the library puts the block of a home.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes from the thread pointer to the end, before it is aligned.
    pub(crate) above: usize,
    /// Alignment of the thread pointer, if it is more than a line; else 1.
    pub(crate) align: usize,
    /// Bytes from the context's frames to the thread pointer.
    pub(crate) below: usize,
}

impl Shape {
    /// Returns the thread pointer of a home at `end`.
    fn pointer(self, end: usize) -> usize {
        (end - self.above) & !(self.align - 1)
    }

    /// Finds the shape of homes that end at `end` and one line lower each, until the library puts a
    /// block lower by its alignment.
    ///
    /// # Errors
    ///
    /// The probe that failed.
    ///
    /// # Safety
    ///
    /// `end` is a multiple of 64, and the [`STACK`] bytes below it are writable and unused.
    unsafe fn find(end: NonNull<u8>) -> Result<Self, Unsupported> {
        // SAFETY: by this function's contract.
        let home_at = |line| unsafe { home_of(end.sub(line * LINE), end.as_ptr().sub(STACK)) };
        let (pointer, mut below) = home_at(0)?;
        for line in 1..=MOST_ALIGN / LINE {
            let (next, also_below) = home_at(line)?;
            below = below.max(also_below);
            let align = pointer.wrapping_sub(next);
            if align == 0 {
                continue;
            }
            // The home before was the lowest one with this thread pointer.
            let above = end.addr().get() - (line - 1) * LINE - pointer;
            // By single lines: each home is at the same distance.
            if line == 1 && align == LINE {
                return Ok(Shape { above, align: 1, below });
            }
            if align.is_power_of_two() && align > LINE && pointer.is_multiple_of(align) {
                return Ok(Shape { above, align, below });
            }
            break;
        }
        Err(Unsupported::Layout("the alignment"))
    }
}

/// The functions by which contexts end, and the shape.
pub(crate) struct Homes {
    call_tls_dtors: unsafe extern "C" fn(),
    keys: *const Key,
    rseq: Option<TlsOffset>,
    pub(crate) shape: Shape,
}

// SAFETY: the pointer is to a static of the library.
unsafe impl Send for Homes {}
// SAFETY: as above.
unsafe impl Sync for Homes {}

/// Bytes of the stack of a home that is looked at.
const STACK: usize = 256 << 10;
/// Bytes of a cache line, to which ends are aligned.
const LINE: usize = 64;
/// The largest alignment of thread-locals that is looked for.
const MOST_ALIGN: usize = 4096;
/// Keys of the library.
const KEYS: usize = KEYS_PER_TABLE * KEYS_PER_TABLE;

impl Homes {
    /// Starts and ends homes, to learn where their blocks are.
    ///
    /// # Errors
    ///
    /// The probe that failed. It fails for good, except that a thread may be had later.
    pub(crate) fn probe() -> Result<Self, Unsupported> {
        // SAFETY: the function has this type.
        let call_tls_dtors = unsafe { function(c"__call_tls_dtors")? };
        let keys = find(c"__pthread_keys")?.as_ptr().cast_const().cast();
        if !are_keys(keys) {
            return Err(Unsupported::Layout("the keys"));
        }
        let memory = Mapping::new(STACK, Scope::Private).map_err(Unsupported::Memory)?;
        // SAFETY: the mapping is unused, has so many bytes, and is aligned to a page.
        let shape = unsafe { Shape::find(memory.start().add(STACK))? };
        Ok(Homes { call_tls_dtors, keys, rseq: rseq(), shape })
    }

    /// Returns the least bytes from the lowest one of a stack to the end of its block: the library
    /// starts no thread on less.
    pub(crate) fn least_stack() -> usize {
        // SAFETY: takes a plain integer. No version of the library allows less than 16 KiB.
        let least = unsafe { libc::sysconf(libc::_SC_THREAD_STACK_MIN) };
        HEADER + usize::try_from(least).unwrap_or(0)
    }

    /// Notes that contexts run on the stack from `stack` to `end`. There is no thread yet.
    ///
    /// # Safety
    ///
    /// `end` is a multiple of 64. The bytes of a home below it are writable and used for nothing
    /// else.
    pub(crate) unsafe fn build(&self, end: NonNull<u8>, stack: *mut u8) {
        // SAFETY: by this function's contract.
        unsafe { write_home(end, stack, self.rseq) };
    }

    /// Starts the thread for a new context.
    ///
    /// # Errors
    ///
    /// There is no thread for it, or its block is not where others are.
    ///
    /// # Safety
    ///
    /// There is a home at `end`, whose stack is unused.
    pub(crate) unsafe fn start(&self, end: NonNull<u8>) -> Result<(), ThreadLocalsError> {
        // SAFETY: by this function's contract.
        let home = unsafe { home_at(end) };
        home.finish();
        // SAFETY: by this function's contract.
        unsafe { home.start(end)? };
        let pointer = self.shape.pointer(end.addr().get());
        let lowest = pointer - self.shape.below + signal_bytes();
        if home.pointer.get() != pointer || home.frame.get() < lowest {
            home.finish();
            return Err(Unsupported::Layout("the thread pointer").into());
        }
        Ok(())
    }

    /// Lets the thread end. Touches no thread-local.
    ///
    /// # Safety
    ///
    /// There is a home at `end`, and no context runs with its block any more.
    pub(crate) unsafe fn leave(&self, end: NonNull<u8>) {
        // SAFETY: by this function's contract.
        unsafe { home_at(end) }.leave();
    }

    /// Ends the thread, if there is one.
    ///
    /// # Safety
    ///
    /// There is a home at `end`, and no context runs with its block any more.
    pub(crate) unsafe fn finish(&self, end: NonNull<u8>) {
        // SAFETY: by this function's contract.
        unsafe { home_at(end) }.finish();
    }

    /// Runs the destructors of thread-locals and keys of the calling context, as the library does
    /// at the end of a thread. It finds nothing to destroy when the thread ends.
    ///
    /// # Safety
    ///
    /// The calling context runs with the block of a home. The destructors are code of the program,
    /// and may suspend the context.
    pub(crate) unsafe fn run_destructors(&self) {
        // SAFETY: the calling context's own list.
        unsafe { (self.call_tls_dtors)() };
        for _ in 0..ROUNDS {
            if !self.run_destructors_of_keys() {
                return;
            }
            // Thread-locals that a destructor was the first to use.
            // SAFETY: as above.
            unsafe { (self.call_tls_dtors)() };
        }
        // Values that destructors set again and again are forgotten, as at the end of a thread.
        (0..KEYS).for_each(|key| _ = take_value(key));
    }

    /// Returns true if any key had a value and a destructor.
    fn run_destructors_of_keys(&self) -> bool {
        let mut has_run = false;
        for key in 0..KEYS {
            // SAFETY: the library has as many keys. Other threads may make and delete keys.
            let destructor =
                unsafe { (&raw const (*self.keys.add(key)).destructor).read_volatile() };
            let Some(destructor) = destructor else { continue };
            if let Some(value) = take_value(key) {
                has_run = true;
                // SAFETY: the key was made with a destructor for its values.
                unsafe { destructor(value.as_ptr()) };
            }
        }
        has_run
    }
}

/// Takes the calling context's value of a key, which may not exist.
fn take_value(key: usize) -> Option<NonNull<c_void>> {
    let key = key as libc::pthread_key_t;
    // SAFETY: the library has no value of a key that does not exist, and has no use for a value.
    unsafe {
        let value = NonNull::new(libc::pthread_getspecific(key))?;
        libc::pthread_setspecific(key, ptr::null());
        Some(value)
    }
}

/// Returns true if the library's table of keys looks as known: it has a key that is made now.
fn are_keys(keys: *const Key) -> bool {
    unsafe extern "C" fn destroy(_: *mut c_void) {}
    let mut key = 0;
    // SAFETY: writes the key to the live local.
    if unsafe { libc::pthread_key_create(&mut key, Some(destroy)) } != 0 {
        return false;
    }
    // SAFETY: the library has as many keys; the key was made above.
    unsafe {
        let made = (&raw const (*keys.add(key as usize)).destructor).read_volatile();
        libc::pthread_key_delete(key);
        made.is_some_and(|made| ptr::fn_addr_eq(made, destroy as unsafe extern "C" fn(_)))
    }
}

/// Starts and ends a home at `end` of an unused stack. Returns its thread pointer, and the bytes
/// from the context's frames to that.
///
/// # Safety
///
/// `end` is a multiple of 64, and the bytes from `stack` on are writable and unused.
unsafe fn home_of(end: NonNull<u8>, stack: *mut u8) -> Result<(usize, usize), Unsupported> {
    // SAFETY: by this function's contract.
    let home = unsafe {
        write_home(end, stack, rseq());
        home_at(end)
    };
    // SAFETY: just written, and the stack is unused.
    unsafe { home.start(end) }.map_err(|error| match error {
        ThreadLocalsError::Unsupported(reason) => reason,
        _ => Unsupported::Thread,
    })?;
    let (pointer, frame) = (home.pointer.get(), home.frame.get());
    home.finish();
    let (start, end) = (stack.addr(), end.addr().get() - HEADER);
    if !(start..end).contains(&pointer) || !(start..pointer).contains(&frame) {
        return Err(Unsupported::Layout("the thread pointer"));
    }
    let below = pointer - frame + FRAMES + signal_bytes();
    Ok((pointer, below.next_multiple_of(LINE)))
}

/// Bytes for frames of the kernel thread below the one in which it sleeps, and for frames that
/// differ from start to start.
const FRAMES: usize = 1024;

/// Bytes of the stack on which a kernel thread that sleeps handles the signals of the library.
fn signal_bytes() -> usize {
    const HANDLER: usize = 4096;
    // SAFETY: takes a plain integer. It returns the size of the state that the kernel saves.
    (unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize).max(4096) + HANDLER
}

/// # Safety
///
/// As for [`Homes::build`].
unsafe fn write_home(end: NonNull<u8>, stack: *mut u8, rseq: Option<TlsOffset>) {
    let home = Home {
        stage: AtomicU32::new(stage::NONE),
        process: Cell::new(0),
        thread: Cell::new(0),
        stack: Cell::new(stack),
        pointer: Cell::new(0),
        frame: Cell::new(0),
        rseq,
    };
    // SAFETY: the bytes are writable, and aligned to a line, by this function's contract.
    unsafe { end.as_ptr().sub(HEADER).cast::<Home>().write(home) };
}

/// # Safety
///
/// [`write_home`] has written a home at `end`, which lives as long as the result is used.
unsafe fn home_at<'h>(end: NonNull<u8>) -> &'h Home {
    // SAFETY: by this function's contract.
    unsafe { &*end.as_ptr().sub(HEADER).cast::<Home>() }
}

impl Home {
    /// Starts the thread, and waits until its thread pointer is lent.
    ///
    /// # Safety
    ///
    /// The home is at `end`, and the stack below it is unused. There is no thread.
    unsafe fn start(&self, end: NonNull<u8>) -> Result<(), ThreadLocalsError> {
        self.stage.store(stage::STARTS, Ordering::Relaxed);
        self.process.set(std::process::id());
        // SAFETY: by this function's contract.
        if !unsafe { self.create(end.addr().get() - HEADER - self.stack.get().addr()) } {
            self.stage.store(stage::NONE, Ordering::Relaxed);
            return Err(ThreadLocalsError::Thread);
        }
        // Acquire: pairs with the Release in `say`.
        while self.stage.load(Ordering::Acquire) == stage::STARTS {
            let _ = futex::wait(&self.stage, stage::STARTS, None, Scope::Private);
        }
        if self.stage.load(Ordering::Acquire) == stage::REFUSED {
            self.finish();
            return Err(Unsupported::Layout("the restartable sequences").into());
        }
        Ok(())
    }

    /// Returns true if there is a thread now.
    ///
    /// # Safety
    ///
    /// The `bytes` from the lowest one of the stack on are unused.
    unsafe fn create(&self, bytes: usize) -> bool {
        let mut attributes = MaybeUninit::uninit();
        let (mut thread, at) = (0, attributes.as_mut_ptr());
        // SAFETY: the attributes are initialised first and destroyed last; the stack is unused, and
        // outlives the thread, as the home does, which `finish` joins.
        let created = unsafe {
            libc::pthread_attr_init(at);
            let set = libc::pthread_attr_setstack(at, self.stack.get().cast(), bytes);
            let argument = ptr::from_ref(self).cast_mut().cast();
            let created = set == 0 && libc::pthread_create(&mut thread, at, run, argument) == 0;
            libc::pthread_attr_destroy(at);
            created
        };
        self.thread.set(thread);
        created
    }

    /// Lets the thread end, if it sleeps. Touches no thread-local.
    fn leave(&self) {
        if self.stage.load(Ordering::Relaxed) == stage::LENT {
            // Release: pairs with the Acquire in `run`.
            self.stage.store(stage::ENDS, Ordering::Release);
            futex::wake(&self.stage, 1, Scope::Private);
        }
    }

    /// Ends the thread, if there is one. In a forked child there is none.
    fn finish(&self) {
        if self.stage.load(Ordering::Relaxed) == stage::NONE {
            return;
        }
        if self.process.get() == std::process::id() {
            self.leave();
            // SAFETY: the thread was started joinable, and is joined once.
            unsafe { libc::pthread_join(self.thread.get(), ptr::null_mut()) };
        }
        self.stage.store(stage::NONE, Ordering::Relaxed);
    }

    /// Sets the stage, from the thread itself. The context may run from here on.
    fn say(&self, stage: u32) {
        // Release: pairs with the Acquire in `start`.
        self.stage.store(stage, Ordering::Release);
        // It does not fail, so it leaves `errno` alone.
        futex::wake(&self.stage, 1, Scope::Private);
    }
}

/// The life of a home's kernel thread. The library ends the thread after it returns.
extern "C" fn run(home: *mut c_void) -> *mut c_void {
    // SAFETY: `create` passes a home, which outlives this thread.
    let home = unsafe { &*home.cast::<Home>() };
    block_signals();
    // SAFETY: this `prctl` option reads a string of at most 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"daiko-home".as_ptr()) };
    kernel_local::mark_as_lent_by(thread::id());
    let pointer = seat::thread_pointer();
    home.pointer.set(pointer);
    home.frame.set(ptr::from_ref(&pointer).addr());
    // SAFETY: the area is the calling thread's.
    if home.rseq.is_some_and(|area| !unsafe { unregister(pointer, area) }) {
        home.say(stage::REFUSED);
        return ptr::null_mut();
    }
    home.say(stage::LENT);
    // Acquire: pairs with the Release in `leave`: the context has run.
    while home.stage.load(Ordering::Acquire) == stage::LENT {
        futex::wait_without_thread_locals(&home.stage, stage::LENT);
    }
    ptr::null_mut()
}

/// Blocks all signals in the calling thread but the one by which the library changes users, which
/// waits for the answer of every thread.
fn block_signals() {
    static MASK: u64 = !(1 << (identity::SIGSETXID - 1));
    let (mask, none) = (&raw const MASK, ptr::null_mut::<u64>());
    // Not by `sigprocmask`, which leaves one more signal out.
    // SAFETY: reads a mask of that size.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, mask, none, size_of_val(&MASK))
    };
}

/// Takes the area of restartable sequences from the kernel, which would write the CPU of this
/// kernel thread there, and marks it as not registered. Returns false if the kernel refuses.
///
/// # Safety
///
/// The area lies there in the block of the calling thread, at `pointer`.
unsafe fn unregister(pointer: usize, area: TlsOffset) -> bool {
    /// `RSEQ_FLAG_UNREGISTER`, and the signature of the library.
    const UNREGISTER: u32 = 1;
    #[cfg(target_arch = "x86_64")]
    const SIGNATURE: u32 = 0x5305_3053;
    #[cfg(target_arch = "aarch64")]
    const SIGNATURE: u32 = 0xd428_bc00;
    #[cfg(target_arch = "riscv64")]
    const SIGNATURE: u32 = 0xf140_1073;
    /// `RSEQ_CPU_ID_REGISTRATION_FAILED`.
    const FAILED: u32 = -2i32 as u32;
    let cpu = at::<[u32; 2]>(pointer, area);
    // SAFETY: the area is the calling thread's.
    let is_registered = unsafe { cpu.read_volatile() }[1] as i32 >= 0;
    // The kernel asks for the size that was registered: 32, or more in a later library.
    let mut sizes = (32..=256u32).step_by(32);
    // SAFETY: as above.
    let take =
        |bytes: u32| unsafe { libc::syscall(libc::SYS_rseq, cpu, bytes, UNREGISTER, SIGNATURE) };
    if is_registered && !sizes.any(|bytes| take(bytes) == 0) {
        return false;
    }
    // SAFETY: as above.
    unsafe { cpu.write_volatile([0, FAILED]) };
    true
}
