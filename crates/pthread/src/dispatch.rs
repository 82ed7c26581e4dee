//! System calls by instructions outside the C library, with `daiko run --dispatch`.
//!
//! The kernel hands them over (`daiko_sys::user_dispatch`) as a signal to the thread that makes
//! them. The handler makes the call as `syscall` of the program would, and may leave the worker for
//! that, as the handler of pokes does.
//!
//! All kernel threads that run code of the program ask for it: a wake by the kernel would miss the
//! sleepers of `futex`.

use std::ffi::{c_int, c_long, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use daiko_home::action::exchange;
use daiko_sys::user_dispatch::{self, HANDED_OVER, HandedOver, MADE};

use crate::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use crate::{code, errno, explain, mask, poke};

/// The variable that `daiko run --dispatch` sets.
const ASKED: &str = "DAIKO_RUN_DISPATCH";

/// The functions by which a call that was handed over is made.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    /// Makes the call as `syscall` does.
    pub(crate) call: fn(HandedOver) -> c_long,
    /// Returns true if the context of the caller is lent.
    pub(crate) is_lent: fn() -> bool,
}

/// Present if calls are handed over.
static DISPATCH: OnceLock<Dispatch> = OnceLock::new();

struct Dispatch {
    course: Course,
    /// The code of the C library, the calls of which are made.
    exempt: Range<usize>,
    /// The code of the C library by which handlers return.
    restorer: usize,
}

/// Takes the handler of `SIGSYS`, if the environment asks for it.
pub(crate) fn begin(course: Course) -> Result<(), String> {
    if std::env::var_os(ASKED).is_none_or(|asked| asked != "1") {
        return Ok(());
    }
    if !user_dispatch::is_offered() {
        return Err("--dispatch needs PR_SET_SYSCALL_USER_DISPATCH (Linux 5.11), and a sandbox \
                    that lets it pass: leave the option out"
            .into());
    }
    if !daiko_context::seat::switches_without_calls() {
        return Err("--dispatch needs FSGSBASE, or each switch would be handed over: leave the \
                    option out"
            .into());
    }
    let exempt = code::around(libc::syscall as *const () as usize);
    let exempt = exempt.ok_or("the code of the C library cannot be found")?;
    mask::keep_open(libc::SIGSYS);
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are an action; the handler is one for three arguments.
    let before = unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handed_over as *const () as usize;
        action.sa_flags = OWN_FLAGS;
        libc::sigaction(libc::SIGSYS, action, before.as_mut_ptr());
        before.assume_init()
    };
    PROGRAMS.set(&before);
    let installed = exchange(libc::SIGSYS, None).filter(|own| exempt.contains(&own.restorer()));
    let own = installed.ok_or("the C library's return from handlers is not known")?;
    let _ = DISPATCH.set(Dispatch { course, exempt, restorer: own.restorer() });
    Ok(())
}

/// A handler may not return on the thread that it runs on, so that its mask stays as it is.
const OWN_FLAGS: c_int = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NODEFER;

/// Returns true if calls are handed over.
pub(crate) fn is_on() -> bool {
    DISPATCH.get().is_some()
}

/// Hands over the calls of the calling kernel thread, which is no home, from here on.
pub(crate) fn begin_thread() {
    ask(None);
}

fn ask(selector: Option<&'static AtomicU8>) {
    let Some(dispatch) = DISPATCH.get() else { return };
    mask::open(libc::SIGSYS);
    // SAFETY: the handler makes the calls, and is left by the C library.
    let asked = unsafe { user_dispatch::hand_over(&dispatch.exempt, selector) };
    asked.expect("the kernel has offered it to this process");
}

/// The choice of a home: the calls of its kernel thread are handed over while that runs code of the
/// program. The kernel reads it until the thread has ended, so that it is never freed.
pub(crate) struct Selector(Option<&'static AtomicU8>);

/// Those of homes that are gone.
static UNUSED: Mutex<Vec<&'static AtomicU8>> = Mutex::new(Vec::new());

fn unused() -> MutexGuard<'static, Vec<&'static AtomicU8>> {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the list of selectors as it is, for a fork.
pub(crate) fn keep_unused() -> impl Drop {
    unused()
}

impl Selector {
    pub(crate) fn new() -> Self {
        Selector(is_on().then(|| {
            // A handler may fork.
            let unused = mask::with_signals_blocked(|| unused().pop());
            unused.unwrap_or_else(|| Box::leak(Box::new(AtomicU8::new(MADE))))
        }))
    }

    /// Lets the calling kernel thread follow it, which runs code of the program.
    pub(crate) fn begin_thread(&self) {
        self.enter_program();
        ask(self.0);
    }

    /// The kernel thread runs code of the program from here on.
    pub(crate) fn enter_program(&self) {
        self.set(HANDED_OVER);
    }

    /// The kernel thread runs the engine from here on, until it enters the program again.
    pub(crate) fn leave_program(&self) {
        self.set(MADE);
    }

    fn set(&self, value: u8) {
        // Relaxed: only the kernel thread itself makes calls by it.
        self.0.inspect(|selector| selector.store(value, Ordering::Relaxed));
    }
}

impl Drop for Selector {
    fn drop(&mut self) {
        if let Some(selector) = self.0.take() {
            mask::with_signals_blocked(|| unused().push(selector));
        }
    }
}

/// The program's own action for `SIGSYS`, which a sandbox may raise.
pub(crate) static PROGRAMS: ProgramsAction =
    ProgramsAction { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicUsize::new(0) };

pub(crate) struct ProgramsAction {
    handler: AtomicUsize,
    flags: AtomicUsize,
}

impl ProgramsAction {
    /// Takes the place of the action before, which is returned.
    pub(crate) fn exchange(&self, new: Option<&libc::sigaction>) -> libc::sigaction {
        // SAFETY: zeros are an action.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        old.sa_sigaction = self.handler.load(Ordering::Relaxed);
        old.sa_flags = self.flags.load(Ordering::Relaxed) as c_int;
        new.inspect(|new| self.set(new));
        old
    }

    fn set(&self, action: &libc::sigaction) {
        self.flags.store(action.sa_flags as usize, Ordering::Relaxed);
        self.handler.store(action.sa_sigaction, Ordering::Relaxed);
    }

    /// Runs the program's handler, or lets the signal do its default.
    ///
    /// # Safety
    ///
    /// The arguments of a handler.
    unsafe fn run(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        match self.handler.load(Ordering::Relaxed) {
            libc::SIG_IGN => {}
            libc::SIG_DFL => {
                // SAFETY: the process ends by it.
                unsafe {
                    libc::signal(signal, libc::SIG_DFL);
                    libc::raise(signal);
                }
            }
            handler => {
                type Handler =
                    unsafe extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                // SAFETY: the program's handler; one of a single argument ignores the others.
                unsafe { std::mem::transmute::<usize, Handler>(handler)(signal, info, context) };
            }
        }
    }
}

unsafe extern "C-unwind" fn handed_over(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the arguments of this handler.
    let call = unsafe { HandedOver::of(info, context) };
    let (Some(dispatch), Some(call)) = (DISPATCH.get(), call) else {
        // SAFETY: as above.
        return unsafe { PROGRAMS.run(signal, info, context.cast()) };
    };
    explain::HANDED_OVER.add();
    if call.number == libc::SYS_rt_sigreturn {
        // The stack pointer leads to the frame of the program's handler.
        // SAFETY: as above.
        unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] = dispatch.restorer as i64 };
        return;
    }
    let result = match possible(call) {
        Some(call) => errno::keep(|| match (dispatch.course.call)(call) {
            -1 => -c_long::from(errno::get()),
            result => result,
        }),
        None => -c_long::from(libc::ENOSYS),
    };
    // SAFETY: as above.
    unsafe {
        user_dispatch::set_result(context, result);
        poke::keep_properties(context, (dispatch.course.is_lent)());
    }
}

/// Returns the call that is made in place of `call`. `None`: only the instruction itself could make
/// it, as the child would go on behind it on another stack; the reason is told once.
fn possible(call: HandedOver) -> Option<HandedOver> {
    /// A child that would share the memory until it executes a program.
    const SHARES: usize = (libc::CLONE_VM | libc::CLONE_VFORK) as usize;
    let HandedOver { number, mut arguments } = call;
    match number {
        libc::SYS_vfork => Some(HandedOver { number: libc::SYS_fork, arguments }),
        libc::SYS_clone if arguments[1] == 0 => {
            arguments[0] &= !SHARES;
            Some(HandedOver { number, arguments })
        }
        libc::SYS_clone | libc::SYS_clone3 => {
            static TOLD: AtomicBool = AtomicBool::new(false);
            if !TOLD.swap(true, Ordering::Relaxed) {
                eprintln!(
                    "daiko run: clone by an instruction outside the C library fails with \
                     --dispatch: leave the option out"
                );
            }
            None
        }
        _ => Some(call),
    }
}
