//! The lives of threads: start, end, join.
//!
//! A thread of the program begins at a new home, or at one that is kept. When its start routine
//! returns, its destructors have run on the worker, and its home is as new, the home is kept: the
//! thread's value is left for the one that joins it, and the context waits for the next thread of
//! the program, which finds the values of new thread-locals. Otherwise, the context goes home, and
//! the kernel thread ends as any thread of the C library does.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, OnceLock};

use daiko_context::FpControl;
use daiko_home::{BlockKind, Blocks};
use daiko_rt::Deadline;
use daiko_rt::fiber::loan;
use daiko_sys::kernel_local;

use libc::{pthread_attr_t, pthread_t};

use crate::atomic::{AtomicUsize, Ordering};
use crate::home::list;
use crate::home::stage::{Kind, Stage};
use crate::home::{self, Beginning, Home, Start};
use crate::parking::{self, Outcome};
use crate::waits::{Target, TargetKind};
use crate::{cancel, dispatch, end, errno, explain, real, stray};

/// The type of `pthread_create`.
type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

/// The `pthread_create` by which homes are started.
static CREATE: OnceLock<Create> = OnceLock::new();

/// Takes note of the function that starts homes.
///
/// # Safety
///
/// `create` is a `pthread_create`.
pub(crate) unsafe fn begin(create: *mut c_void) {
    // SAFETY: by this function's contract.
    let _ = CREATE.set(unsafe { std::mem::transmute::<*mut c_void, Create>(create) });
    explain::at_exit();
    end::begin();
}

/// Returns the renewal of thread-locals, by which homes are kept. `None`: the C library is not
/// known so well; homes end with their threads. The first caller is no lent context: the probe
/// needs a kernel thread of its own.
fn blocks() -> Option<Blocks> {
    static BLOCKS: OnceLock<Option<Blocks>> = OnceLock::new();
    *BLOCKS.get_or_init(|| Blocks::of(BlockKind::Light).ok())
}

/// Attributes of a new thread.
#[derive(Clone, Copy)]
struct Attributes {
    is_detached: bool,
    /// It has a policy of the kernel's scheduler, or CPUs, of its own.
    has_policy: bool,
    /// Bytes of stack and guard, unless the memory is given, or the mask of signals.
    sizes: Option<(usize, usize)>,
}

impl Attributes {
    /// Returns those of a new thread; null: the defaults of the process.
    ///
    /// # Safety
    ///
    /// `attributes` is null, or attributes.
    unsafe fn of(attributes: *const pthread_attr_t) -> Self {
        if !attributes.is_null() {
            // SAFETY: by this function's contract.
            return unsafe { Self::read(attributes) };
        }
        let mut default = MaybeUninit::uninit();
        // SAFETY: the attributes are read once they are written, and destroyed.
        unsafe {
            if real::pthread_getattr_default_np(default.as_mut_ptr()) != 0 {
                // There is no memory for a copy: the C library reads them itself.
                return Attributes { is_detached: false, has_policy: false, sizes: None };
            }
            let read = Self::read(default.as_ptr());
            libc::pthread_attr_destroy(default.as_mut_ptr());
            read
        }
    }

    /// # Safety
    ///
    /// `of` is attributes.
    unsafe fn read(of: *const pthread_attr_t) -> Self {
        // SAFETY: by this function's contract; the rest writes live locals. Zeros are a set of
        // CPUs, and one of signals.
        unsafe {
            let (mut detached, mut inherits) = (0, libc::PTHREAD_INHERIT_SCHED);
            real::pthread_attr_getdetachstate(of, &raw mut detached);
            libc::pthread_attr_getinheritsched(of, &raw mut inherits);
            let mut cpus = std::mem::zeroed::<libc::cpu_set_t>();
            let bytes = size_of_val(&cpus);
            // Without a choice it is full.
            let has_cpus = libc::pthread_attr_getaffinity_np(of, bytes, &raw mut cpus) == 0
                && libc::CPU_COUNT(&cpus) as usize != 8 * bytes;
            let (mut memory, mut memory_bytes) = (ptr::null_mut(), 0);
            libc::pthread_attr_getstack(of, &raw mut memory, &raw mut memory_bytes);
            let (mut stack, mut guard) = (0, 0);
            libc::pthread_attr_getstacksize(of, &raw mut stack);
            libc::pthread_attr_getguardsize(of, &raw mut guard);
            let mut signals = std::mem::zeroed();
            let has_mask = real::pthread_attr_getsigmask_np(of, &raw mut signals) == 0;
            // Without memory of the program, the end of the stack is null.
            let is_given = memory.addr().wrapping_add(memory_bytes) != 0;
            Attributes {
                is_detached: detached == libc::PTHREAD_CREATE_DETACHED,
                has_policy: inherits == libc::PTHREAD_EXPLICIT_SCHED || has_cpus,
                sizes: (!is_given && !has_mask).then_some((stack, guard)),
            }
        }
    }

    /// Returns the kind of the home that the caller's new thread needs, if it may be one that is
    /// kept.
    fn kind(self) -> Option<Kind> {
        let (stack, guard) = self.sizes?;
        let heritage = home::heritage()?;
        blocks().map(|_| Kind { stack, guard, heritage })
    }
}

/// Starts a thread, which lends its context to the workers. `EAGAIN` and `EINVAL` as of
/// `pthread_create`.
///
/// # Safety
///
/// As for `pthread_create`.
pub(crate) unsafe fn start(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    errno::keep(|| {
        // SAFETY: by this function's contract.
        let wanted = unsafe { Attributes::of(attributes) };
        let (mask, fp) = (home::mask_of_caller(), FpControl::current());
        let beginning = Beginning { start, argument, mask, fp };
        end::thread_is_created();
        // SAFETY: by this function's contract.
        let created = unsafe {
            if wanted.has_policy {
                start_native(thread, attributes, beginning)
            } else {
                match wanted.kind() {
                    Some(kind) => start_kept(thread, kind, wanted.is_detached, beginning),
                    None => start_home(thread, attributes, beginning, None, false),
                }
            }
        };
        if created != 0 {
            end::thread_is_not_created();
            // Threads that end give their memory back, on this worker, maybe.
            home::yield_now();
        }
        created
    })
}

/// Starts a thread at a home of this kind that is kept, or else at a new one.
///
/// # Safety
///
/// As for `pthread_create`.
unsafe fn start_kept(
    thread: *mut pthread_t,
    kind: Kind,
    is_detached: bool,
    beginning: Beginning,
) -> c_int {
    let kept = list::lock().take(kind, |home| {
        home.begin_another(beginning);
        home.detached.set(is_detached);
    });
    if let Some(home) = kept {
        // SAFETY: by this function's contract.
        unsafe { thread.write(home.thread.get()) };
        parking::wake_one(&home.between);
        explain::THREADS.add();
        return 0;
    }
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the attributes live until the thread is created; the sizes were in attributes.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), kind.stack);
        libc::pthread_attr_setguardsize(attributes.as_mut_ptr(), kind.guard);
        let created = start_home(thread, attributes.as_ptr(), beginning, Some(kind), is_detached);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        created
    }
}

/// Starts a thread at a new home. `None` for a home that ends with it: then the C library knows
/// whether the thread is detached.
///
/// # Safety
///
/// As for `pthread_create`.
unsafe fn start_home(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    beginning: Beginning,
    kind: Option<Kind>,
    is_detached: bool,
) -> c_int {
    let Some(home) = Home::new(beginning, kind) else {
        // SAFETY: by this function's contract.
        return unsafe { start_native(thread, attributes, beginning) };
    };
    home.detached.set(is_detached);
    let passed = Arc::into_raw(Arc::clone(&home));
    // SAFETY: by this function's contract; `live` takes a home.
    let created = unsafe { create(thread, attributes, live, passed.cast_mut().cast()) };
    if created == 0 {
        // Both enter it: the program may ask for the thread at once, and so may the thread.
        // SAFETY: written by the call.
        list::lock().enter(unsafe { thread.read() }, &home);
        explain::THREADS.add();
    } else {
        // SAFETY: no thread has got it.
        drop(unsafe { Arc::from_raw(passed) });
    }
    created
}

/// Calls the C library's function; once more without the homes that are kept, if there is no room
/// for another thread.
///
/// # Safety
///
/// As for `pthread_create`.
unsafe fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: Start,
    argument: *mut c_void,
) -> c_int {
    let create = CREATE.get().expect("the engine has begun");
    // At home, of which the new kernel thread inherits name, signals and priority.
    // SAFETY: by this function's contract.
    let create = || home::errand(|| unsafe { create(thread, attributes, routine, argument) });
    let created = create();
    if created != libc::EAGAIN || !dismiss_kept() {
        return created;
    }
    create()
}

/// Ends the kernel threads of all homes that are kept. Returns false if there was none.
fn dismiss_kept() -> bool {
    let dismissed = list::lock().dismiss();
    for home in &dismissed {
        parking::wake_one(&home.between);
    }
    for home in &dismissed {
        let thread = home.thread.get();
        // SAFETY: nothing else joins the thread of a home that was dismissed.
        home::errand(|| unsafe { libc::pthread_join(thread, ptr::null_mut()) });
    }
    !dismissed.is_empty()
}

/// Starts a native thread.
///
/// # Safety
///
/// As for `pthread_create`.
unsafe fn start_native(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    beginning: Beginning,
) -> c_int {
    let passed = Box::into_raw(Box::new(beginning));
    // SAFETY: by this function's contract; `live_natively` takes a beginning.
    let created = unsafe { create(thread, attributes, live_natively, passed.cast()) };
    if created == 0 {
        explain::NATIVE.add();
    } else {
        // SAFETY: no thread has got it.
        drop(unsafe { Box::from_raw(passed) });
    }
    created
}

/// The life of a thread without a home to leave.
unsafe extern "C-unwind" fn live_natively(passed: *mut c_void) -> *mut c_void {
    let mut base = 0;
    dispatch::begin_thread();
    end::begin_course();
    // SAFETY: `start_native` passes it, once.
    let value = unsafe {
        let beginning = *Box::from_raw(passed.cast::<Beginning>());
        call_coloured(beginning.start, beginning.argument, 0, &raw mut base)
    };
    end::tell();
    value
}

/// Runs the start routine of a thread, on a part of the stack that differs from thread to thread:
/// the C library's stacks lie at such distances that the same frames of all threads share few sets
/// of a cache. Writes the end of that part to `base`: the address of the first return address.
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_coloured(
    start: Start,
    argument: *mut c_void,
    colour: usize,
    base: *mut usize,
) -> *mut c_void {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {unwound}",
        "push rbp",
        ".cfi_def_cfa rsp, 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, rdx",
        "lea rax, [rsp - 8]",
        "mov [rcx], rax",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        unwound = sym unwound,
    )
}

/// The personality of the frame above: asked whenever an unwind passes it. The end of a thread goes
/// through here on its way to the C library's frames, which run at home.
unsafe extern "C" fn unwound(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    const CLEANUP_PHASE: c_int = 2;
    const CONTINUE_UNWIND: c_int = 8;
    if actions & CLEANUP_PHASE != 0 {
        if let Some(home) = home::of_lent() {
            home.come().let_signals_in();
        }
        end::tell();
    }
    CONTINUE_UNWIND
}

/// Returns the colour of a new home's stack, in bytes.
fn next_colour() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const LINE: usize = 64;
    // Steps of some lines, so that threads that are started together lie apart.
    NEXT.fetch_add(5, Ordering::Relaxed) % 16 * LINE
}

/// The life of a home: the context is lent, runs start routines on workers, and comes home to end
/// as any thread does.
unsafe extern "C-unwind" fn live(passed: *mut c_void) -> *mut c_void {
    // SAFETY: it has no argument.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: `start_home` passes a home, which the list keeps until the end of the thread.
    let home: &Home = unsafe {
        let home = Arc::from_raw(passed.cast::<Home>().cast_const());
        home.thread.set(thread);
        list::lock().enter(thread, &home);
        &*Arc::as_ptr(&home)
    };
    loan::prepare_thread();
    kernel_local::mark_as_lent_by(home::thread_id());
    home.selector.begin_thread();
    home.note_first_mask();
    home.lend();
    let colour = next_colour();
    let value = loop {
        let Beginning { start, argument, .. } = home.beginning.get();
        end::begin_course();
        // SAFETY: by the contract of `start`.
        let value = unsafe { call_coloured(start, argument, colour, home.base.as_ptr()) };
        if !returns(home, value, colour) {
            break value;
        }
    };
    if home::of_lent().is_some() {
        home.come().let_signals_in();
    }
    end::tell();
    value
}

/// Ends the thread of the program that has returned `value`, and waits until another one begins at
/// the home. Returns false if the kernel thread has to end.
fn returns(home: &Home, value: *mut c_void, colour: usize) -> bool {
    let Some(blocks) = blocks() else { return false };
    let is_as_new = || {
        home::of_lent().is_some()
            && home.is_as_new()
            && !cancel::has_come()
            && blocks.holds_no_robust_mutex()
    };
    if !is_as_new() {
        return false;
    }
    let mut base = 0;
    end::note_return();
    // A destructor may end the thread.
    // SAFETY: the routine takes no argument.
    unsafe { call_coloured(run_destructors, ptr::null_mut(), colour, &raw mut base) };
    {
        let mut homes = list::lock();
        // No other thread acts on this one from here on.
        if !is_as_new() || !homes.have_room() || !end::thread_returns() {
            return false;
        }
        homes.keep(home, value);
    }
    end::note_told();
    parking::wake_all(&home.joiners);
    home.discard_stack();
    let is_between = || matches!(home.stage.get(), Stage::Returned | Stage::Kept);
    while is_between() {
        parking::wait(&home.between, Target::NOTHING, Deadline::NEVER, is_between);
    }
    if home.stage.get() == Stage::Dismissed {
        list::lock().remove(home.thread.get());
        return false;
    }
    // SAFETY: the destructors have run; the engine keeps no reference to a thread-local.
    unsafe { blocks.renew_thread(home::thread_id()) };
    home.beginning.get().fp.load();
    true
}

/// A start routine that runs the destructors of the calling thread.
unsafe extern "C-unwind" fn run_destructors(_: *mut c_void) -> *mut c_void {
    if let Some(blocks) = blocks() {
        // SAFETY: the caller's own block.
        unsafe { blocks.end(daiko_home::ThreadPointer::of_caller()) };
    }
    ptr::null_mut()
}

/// Ends the calling thread.
///
/// # Safety
///
/// As for `pthread_exit`.
pub(crate) unsafe extern "C-unwind" fn exit(value: *mut c_void) -> ! {
    let _ = home::leave_for_errand();
    if home::thread_id() == std::process::id() {
        // The initial thread. Other threads end where their start routine is left.
        stray::watch();
        end::thread_ends();
    } else {
        end::tell_if_returned();
    }
    // SAFETY: by this function's contract.
    unsafe { real::pthread_exit(value) }
}

/// The finding of `join`.
enum Found {
    /// The thread is native, or has ended as one.
    Native,
    /// It has returned this value, and is joined.
    Returned(*mut c_void),
    /// It runs.
    Runs(Arc<Home>),
}

/// Looks for `thread`, on behalf of the calling thread, which joins it, if it `waits` for it.
fn find(thread: pthread_t, waits: bool) -> Result<Found, c_int> {
    // SAFETY: it has no argument.
    let own = unsafe { libc::pthread_self() };
    let mut homes = list::lock();
    let Some(home) = homes.get(thread) else { return Ok(Found::Native) };
    if home.kind.is_none() {
        return Ok(Found::Native);
    }
    if home.detached.get() {
        return Err(libc::EINVAL);
    }
    let joins_caller = homes.get(own).is_some_and(|own| own.joined_by.get() == thread);
    if waits && (thread == own || joins_caller) {
        return Err(libc::EDEADLK);
    }
    if ![0, own].contains(&home.joined_by.get()) {
        return Err(libc::EINVAL);
    }
    if home.stage.get() == Stage::Returned {
        let value = home.value.get();
        homes.release(thread);
        return Ok(Found::Returned(value));
    }
    if !waits {
        return Err(libc::EBUSY);
    }
    home.joined_by.set(own);
    Ok(Found::Runs(Arc::clone(home)))
}

/// Joins `thread`, and writes its value to `value`; `native` joins a native one.
///
/// # Safety
///
/// As for `pthread_join`.
pub(crate) unsafe fn join(
    thread: pthread_t,
    value: *mut *mut c_void,
    deadline: Option<Deadline>,
    native: impl FnOnce() -> c_int,
) -> c_int {
    cancel::test();
    loop {
        let home = match find(thread, deadline.is_some()) {
            Err(error) => return error,
            Ok(Found::Native) => return home::errand(native),
            Ok(Found::Returned(found)) => {
                if !value.is_null() {
                    // SAFETY: by this function's contract.
                    unsafe { value.write(found) };
                }
                return 0;
            }
            Ok(Found::Runs(home)) => home,
        };
        let runs = || home.stage.get() == Stage::Runs;
        let target = Target { kind: TargetKind::Join, address: thread as usize };
        let until = deadline.unwrap_or(Deadline::NEVER);
        let leave = || {
            let _homes = list::lock();
            home.joined_by.set(0);
        };
        let (outcome, ()) = parking::wait_then(&home.joiners, target, until, runs, leave);
        // The calling thread may end below.
        drop(home);
        match outcome {
            Outcome::Over => {}
            Outcome::TimedOut => return libc::ETIMEDOUT,
            Outcome::Interrupted(_) => cancel::test(),
        }
    }
}

/// Detaches `thread`.
///
/// # Safety
///
/// As for `pthread_detach`.
pub(crate) unsafe fn detach(thread: pthread_t) -> c_int {
    let mut homes = list::lock();
    match homes.get(thread) {
        Some(home) if home.kind.is_some() => {
            if home.detached.replace(true) {
                return libc::EINVAL;
            }
            if home.stage.get() == Stage::Returned {
                homes.release(thread);
            }
            0
        }
        // SAFETY: by this function's contract.
        _ => unsafe { libc::pthread_detach(thread) },
    }
}

/// Returns true if the thread is detached. `None`: the C library knows.
pub(crate) fn is_detached(thread: pthread_t) -> Option<bool> {
    let homes = list::lock();
    let home = homes.get(thread).filter(|home| home.kind.is_some())?;
    Some(home.detached.get())
}
