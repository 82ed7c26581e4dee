//! Pokes: a context that runs on a worker is brought home by a signal.
//!
//! The handler runs on the worker's kernel thread, on the stack of the context. It may leave that
//! stack as any call may, if the context is in code of the program. So it asks whether the
//! interrupted instruction, or any return address on the stack, lies in the engine; then it leaves
//! the context alone, which finds the interrupt at its next wait, and is poked again meanwhile. No
//! word of the stack that leads into the engine: no return address does. Otherwise the word may be
//! left from an earlier call, and the tables for unwinding decide.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use daiko_rt::fiber::{Lender, loan};
use daiko_rt::runtime::RuntimeInner;

use crate::atomic::{AtomicPtr, Ordering};
use crate::mask::{Mask, POKE};
use crate::own_thread::OwnThread;
use crate::{code, errno};

/// Words of the stack above the interrupted frame in which return addresses are looked for.
const LOOKED_AT: usize = 4096;

/// The code of the engine.
static ENGINE: OnceLock<Range<usize>> = OnceLock::new();

/// Lets the calling context attend to its interrupts, if it has any, and is in its own code: by the
/// test that it gets, which takes the end of the part of the stack that the program uses. Returns
/// false if it did nothing; otherwise it has [ended](end) the poke.
pub(crate) type Attend = fn(&dyn Fn(usize) -> bool) -> bool;

static ATTEND: OnceLock<Attend> = OnceLock::new();
/// Pokes all contexts that have to come home, and returns true if there are any.
static POKE_ALL: OnceLock<fn() -> bool> = OnceLock::new();

/// The runtime of this process, once a context of it was poked.
static RUNTIME: AtomicPtr<RuntimeInner> = AtomicPtr::new(ptr::null_mut());

/// Pokes the context of `lender`, which is lent to `runtime`. One caller at a time.
pub(crate) fn send(runtime: &'static RuntimeInner, lender: &Lender) {
    // Relaxed, as the load: the kernel orders the handler behind the signal.
    RUNTIME.store(ptr::from_ref(runtime).cast_mut(), Ordering::Relaxed);
    loan::poke(runtime, lender, POKE);
}

/// Lets the calling kernel thread be poked again. Only the handler.
pub(crate) fn end() {
    // SAFETY: a runtime of the engine lives for ever.
    let runtime = unsafe { RUNTIME.load(Ordering::Relaxed).as_ref() };
    runtime.inspect(|runtime| loan::end_poke(runtime));
}

/// Installs the handler.
pub(crate) fn begin(attend: Attend, poke_all: fn() -> bool) -> Result<(), String> {
    let _ = (ATTEND.set(attend), POKE_ALL.set(poke_all));
    let code = code::around(begin as *const () as usize);
    let code = code.ok_or("the engine's code cannot be found")?;
    let _ = ENGINE.set(code);
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are an action; the handler is one for three arguments.
    let installed = unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = poked as *const () as usize;
        // The mask stays as it is: the handler may not return on the thread that it runs on.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NODEFER;
        libc::sigaction(POKE, action, ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(format!("signal {POKE} cannot be handled")) }
}

/// The thread that pokes again.
pub(crate) static PROMPTER: OwnThread = OwnThread::new("daiko-poke");

/// Lets all contexts be poked from time to time, by a thread of its own, until none has to come.
pub(crate) fn prompt() {
    let prompter = PROMPTER.get_or_start(|| {
        let poke_all = *POKE_ALL.get()?;
        Some(move || prompts(poke_all))
    });
    if let Some(prompter) = prompter {
        prompter.unpark();
    }
}

/// The life of the thread that pokes again.
fn prompts(poke_all: fn() -> bool) {
    const PERIOD: Duration = Duration::from_millis(1);
    loop {
        std::thread::park();
        std::thread::sleep(PERIOD);
        while poke_all() {
            std::thread::sleep(PERIOD);
        }
    }
}

unsafe extern "C-unwind" fn poked(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the state of the interrupted code.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let (at, stack) =
        (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize);
    let Some(engine) = ENGINE.get() else { return };
    if engine.contains(&at) {
        return end();
    }
    let Some(attend) = ATTEND.get() else { return };
    // Equal: the start routine itself, without a frame.
    let is_own_code = |base| {
        stack <= base
            && (!leads_into(engine, stack, base) || Frames::of_program(engine, stack, base))
    };
    // The state of the interrupted code is restored on the way back.
    if !errno::keep(|| attend(&is_own_code)) {
        return end();
    }
    // SAFETY: as above.
    unsafe { keep_properties(context.cast(), loan::lender_of_caller().is_some()) };
}

/// Returns true if a word of the stack from `stack` to `base` leads into the engine.
fn leads_into(engine: &Range<usize>, stack: usize, base: usize) -> bool {
    let end = base.min(stack + LOOKED_AT * size_of::<usize>());
    (stack & !7..end).step_by(size_of::<usize>()).any(|address| {
        // SAFETY: a word of the calling context's own stack, in frames that live.
        engine.contains(&unsafe { ptr::with_exposed_provenance::<usize>(address).read_volatile() })
    })
}

/// The frames of the interrupted code, by the tables for unwinding.
struct Frames<'e> {
    engine: &'e Range<usize>,
    /// The stack pointer of the interrupted code.
    stack: usize,
    /// The address of the first return address.
    base: usize,
    found: Option<Found>,
}

/// The first finding among the frames.
#[derive(PartialEq, Eq)]
enum Found {
    Engine,
    Base,
}

impl Frames<'_> {
    /// Returns true if each frame, from the interrupted one to that at `base`, is known to be of
    /// code outside the engine. It takes no lock, and no memory.
    fn of_program(engine: &Range<usize>, stack: usize, base: usize) -> bool {
        unsafe extern "C" {
            fn _Unwind_Backtrace(
                frame: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
                of: *mut c_void,
            ) -> c_int;
        }
        let mut frames = Frames { engine, stack, base, found: None };
        // SAFETY: the function takes a frame, and the frames.
        unsafe { _Unwind_Backtrace(Self::look, (&raw mut frames).cast()) };
        frames.found == Some(Found::Base)
    }

    /// Looks at a frame, of which `context` is the caller.
    ///
    /// # Safety
    ///
    /// `context` is of a frame that is unwound; `this` is a `Frames`.
    unsafe extern "C" fn look(context: *mut c_void, this: *mut c_void) -> c_int {
        const NO_REASON: c_int = 0;
        const NORMAL_STOP: c_int = 4;
        unsafe extern "C" {
            fn _Unwind_GetIP(context: *mut c_void) -> usize;
            fn _Unwind_GetCFA(context: *mut c_void) -> usize;
        }
        // SAFETY: by this function's contract.
        // The function returns the end of the frame below: the stack pointer of this one.
        let (this, at, stack) =
            unsafe { (&mut *this.cast::<Self>(), _Unwind_GetIP(context), _Unwind_GetCFA(context)) };
        // The frames of the handler lie below.
        if stack < this.stack {
            return NO_REASON;
        }
        this.found = match stack {
            _ if stack > this.base => Some(Found::Base),
            _ if this.engine.contains(&at) => Some(Found::Engine),
            _ => return NO_REASON,
        };
        NORMAL_STOP
    }
}

/// Lets the calling kernel thread keep its alternate stack and mask at the return from the handler,
/// which has begun on another one, maybe. Workers, on which a context runs that `is_lent`, have
/// equal masks.
///
/// # Safety
///
/// `context` is the state that the calling handler returns to.
pub(crate) unsafe fn keep_properties(context: *mut libc::ucontext_t, is_lent: bool) {
    // SAFETY: by this function's contract.
    unsafe {
        libc::sigaltstack(ptr::null(), &raw mut (*context).uc_stack);
        if !is_lent {
            Mask::of_thread().write_whole(&raw mut (*context).uc_sigmask);
        }
    }
}
