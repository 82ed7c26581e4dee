//! Memory faults: an alternate stack, a handler that passes foreign faults on, and the final
//! message.

use std::io;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::Scope;
use crate::arch;
use crate::memory::{GuardKind, Mapping, MemoryError, install_guard, page_size};
use crate::requests;

/// An alternate stack for the calling thread's signal handlers, until dropped.
///
/// A handler of stack overflows cannot run on the stack that is full.
#[derive(Debug)]
pub struct AltStack {
    previous: libc::stack_t,
    memory: ManuallyDrop<Mapping>,
    _this_thread: PhantomData<*mut ()>,
}

impl AltStack {
    /// Installs an alternate stack of at least 32 KiB, with a guard below it, for this thread.
    ///
    /// # Errors
    ///
    /// The limit that refused the memory.
    pub fn install() -> Result<Self, MemoryError> {
        // SAFETY: `getauxval` takes a plain integer. It returns the size of the register state that
        // the kernel saves on this stack.
        let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        let (guard, size) = (page_size(), frame + 32 * 1024);
        let memory = Mapping::new(guard + size, Scope::Private)?;
        // SAFETY: the mapping is this function's own and unused; the part above the guard outlives
        // the registration, which Drop ends first.
        unsafe {
            install_guard(memory.start(), guard, GuardKind::probe())?;
            let stack = libc::stack_t {
                ss_sp: memory.start().add(guard).as_ptr().cast(),
                ss_flags: 0,
                ss_size: memory.len() - guard,
            };
            let mut previous = mem::zeroed();
            match libc::sigaltstack(&stack, &mut previous) {
                0 => Ok(Self {
                    previous,
                    memory: ManuallyDrop::new(memory),
                    _this_thread: PhantomData,
                }),
                _ => Err(MemoryError::Refused { errno: crate::thread::errno() }),
            }
        }
    }
}

impl AltStack {
    /// Returns true if the thread still uses this stack.
    fn is_installed(&self) -> bool {
        let start = self.memory.start().as_ptr().addr();
        // SAFETY: zero is a valid `stack_t`, and the result goes to a live local.
        let current = unsafe {
            let mut current: libc::stack_t = mem::zeroed();
            libc::sigaltstack(ptr::null(), &mut current);
            current
        };
        (start..start + self.memory.len()).contains(&current.ss_sp.addr())
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        // If another stack was installed after this one, its end brings this one back: then the
        // memory stays for good.
        if self.is_installed() {
            // SAFETY: this thread had the previous stack before and has replaced it, as the type is
            // not `Send`; an `AltStack` keeps its memory until it is replaced. The memory is not
            // used after that.
            unsafe {
                libc::sigaltstack(&self.previous, ptr::null_mut());
                ManuallyDrop::drop(&mut self.memory);
            }
        }
    }
}

/// A memory access that the kernel refused.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The address that was accessed.
    pub address: usize,
    /// The stack pointer of the faulting code.
    pub stack_pointer: usize,
}

/// Returns true if this process has a handler for an asynchronous signal: any signal but those that
/// its own instructions cause.
pub fn any_handler() -> bool {
    any_handler_besides(&[])
}

/// Returns true if this process has a handler for an asynchronous signal that is not listed.
pub fn any_handler_besides(listed: &[libc::c_int]) -> bool {
    const OWN: [libc::c_int; 6] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];
    let handled = |signal| {
        action(signal).is_ok_and(|action| {
            let handler = action.sa_sigaction;
            handler != libc::SIG_DFL && handler != libc::SIG_IGN && !requests::is_own(handler)
        })
    };
    (1..=libc::SIGRTMAX())
        .any(|signal| !OWN.contains(&signal) && !listed.contains(&signal) && handled(signal))
}

/// Returns true if this process ignores a signal, for instance SIGHUP under `nohup`.
pub fn is_ignored(signal: libc::c_int) -> bool {
    action(signal).is_ok_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// Calls `hook` for every memory fault (SIGSEGV, SIGBUS) of this process, before the handlers
/// installed so far.
///
/// When the hook returns, the fault goes to the previous handler or has its default effect. The
/// hook runs on the faulting thread's alternate stack.
///
/// ```compile_fail,E0133
/// daiko_sys::signal::on_fault(|_| println!("a fault")).unwrap();
/// ```
///
/// # Errors
///
/// `AlreadyExists` on a second call; otherwise the error of `sigaction`.
///
/// # Safety
///
/// The hook is async-signal-safe: the fault may lie inside the allocator, or any other code.
pub unsafe fn on_fault(hook: fn(Fault)) -> io::Result<()> {
    let _installing = installing();
    let handlers = Handlers { hook, segv: action(libc::SIGSEGV)?, bus: action(libc::SIGBUS)? };
    // Published before the handler can run, which reads it without waiting.
    HANDLERS.set(handlers).map_err(|_| io::ErrorKind::AlreadyExists)?;
    // SAFETY: the handler is async-signal-safe as long as the hook is.
    [libc::SIGSEGV, libc::SIGBUS]
        .into_iter()
        .try_for_each(|signal| unsafe { handle_by(signal, handle) })
}

/// Calls `repair` for accesses to mapped pages without memory behind them (SIGBUS, `BUS_ADRERR`),
/// before the handler installed so far. If it returns true, the access is repeated.
///
/// `repair` gets the address and must be async-signal-safe. The first registration stays; later
/// calls are ignored.
///
/// # Errors
///
/// The error of `sigaction`.
pub(crate) fn on_missing_page(repair: fn(usize) -> bool) -> io::Result<()> {
    let _installing = installing();
    if REPAIR.get().is_some() {
        return Ok(());
    }
    let previous = action(libc::SIGBUS)?;
    // Published before the handler can run, which reads it without waiting.
    REPAIR.get_or_init(|| Repair { repair, previous });
    // SAFETY: the handler is async-signal-safe as long as `repair` is.
    unsafe { handle_by(libc::SIGBUS, handle_missing_page) }
}

/// Excludes another installation between the reading of the previous handler and its replacement,
/// which would be lost.
fn installing() -> MutexGuard<'static, ()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    INSTALLING.lock().unwrap_or_else(PoisonError::into_inner)
}

type Handler = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// # Safety
///
/// The handler is async-signal-safe.
unsafe fn handle_by(signal: libc::c_int, handler: Handler) -> io::Result<()> {
    // SAFETY: zero is a valid `sigaction`; the handler has the signature that SA_SIGINFO requires,
    // and the caller answers for its effects.
    unsafe {
        let mut ours: libc::sigaction = mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        match libc::sigaction(signal, &ours, ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The hook and the previous actions.
struct Handlers {
    hook: fn(Fault),
    segv: libc::sigaction,
    bus: libc::sigaction,
}

static HANDLERS: OnceLock<Handlers> = OnceLock::new();

/// The repair function and the previous action.
struct Repair {
    repair: fn(usize) -> bool,
    previous: libc::sigaction,
}

static REPAIR: OnceLock<Repair> = OnceLock::new();

fn action(signal: libc::c_int) -> io::Result<libc::sigaction> {
    // SAFETY: zero is a valid `sigaction`, and the result goes to a live local.
    unsafe {
        let mut action = mem::zeroed();
        match libc::sigaction(signal, ptr::null(), &mut action) {
            0 => Ok(action),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

unsafe extern "C" fn handle(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some(handlers) = HANDLERS.get() else { return };
    // SAFETY: the kernel passes a valid `siginfo_t`.
    let sent = unsafe { (*info).si_code <= 0 };
    if !sent {
        // SAFETY: both pointers are valid; a fault that no process sent has an address.
        (handlers.hook)(unsafe {
            Fault { address: (*info).si_addr() as usize, stack_pointer: stack_pointer(context) }
        });
    }
    let previous = if signal == libc::SIGBUS { &handlers.bus } else { &handlers.segv };
    // SAFETY: these are the arguments of this very signal.
    unsafe { pass_on(previous, signal, info, context, sent) }
}

unsafe extern "C" fn handle_missing_page(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some(Repair { repair, previous }) = REPAIR.get() else { return };
    // SAFETY: the kernel passes a valid pointer, and a fault with this code has an address.
    let (code, is_repaired) = unsafe {
        let code = (*info).si_code;
        (code, code == libc::BUS_ADRERR && repair((*info).si_addr() as usize))
    };
    if !is_repaired {
        // SAFETY: these are the arguments of this very signal.
        unsafe { pass_on(previous, signal, info, context, code <= 0) }
    }
}

/// # Safety
///
/// `context` is the third argument of a signal handler.
unsafe fn stack_pointer(context: *mut libc::c_void) -> usize {
    // SAFETY: the third argument points to a `ucontext_t`.
    arch::stack_pointer(unsafe { &*context.cast::<libc::ucontext_t>() })
}

/// # Safety
///
/// The arguments are those of the signal handler that is running.
unsafe fn pass_on(
    previous: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    sent: bool,
) {
    let handler = previous.sa_sigaction;
    if handler == libc::SIG_IGN && sent {
        return;
    }
    // SAFETY: all calls are async-signal-safe. The previous handler has the signature that its
    // flags state, and gets the mask it asked for; the kernel restores the current mask when this
    // handler returns.
    unsafe {
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // On return the access is repeated and has its default effect. A signal that was sent
            // would not recur, so it is sent again.
            restore_default(signal);
            if sent {
                libc::raise(signal);
            }
            return;
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &previous.sa_mask, ptr::null_mut());
        if previous.sa_flags & libc::SA_SIGINFO != 0 {
            mem::transmute::<usize, Handler>(handler)(signal, info, context);
        } else {
            mem::transmute::<usize, unsafe extern "C" fn(libc::c_int)>(handler)(signal);
        }
    }
}

/// Restores a signal's default effect in this process, from now on. Async-signal-safe.
pub fn restore_default(signal: libc::c_int) {
    // SAFETY: zero is a valid `sigaction` and means SIG_DFL; `sigaction`
    // is async-signal-safe.
    unsafe {
        let default: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, &default, ptr::null_mut());
    }
}

/// Writes at most 16 parts to standard error in one call, with no guarantee. Async-signal-safe.
pub fn write_stderr(parts: &[&[u8]]) {
    let mut pieces = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 16];
    let count = parts.len().min(pieces.len());
    for (piece, part) in pieces.iter_mut().zip(parts) {
        *piece = libc::iovec { iov_base: part.as_ptr() as *mut _, iov_len: part.len() };
    }
    // SAFETY: the pieces describe live slices, which `writev` only reads.
    unsafe { libc::writev(libc::STDERR_FILENO, pieces.as_ptr(), count as libc::c_int) };
}

/// Ends the process by SIGABRT, past any handler. Async-signal-safe.
pub fn abort() -> ! {
    restore_default(libc::SIGABRT);
    // SAFETY: `abort` takes nothing and is async-signal-safe.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alternate_stack_ends_with_its_value() {
        let current = || {
            // SAFETY: zero is a valid `stack_t`, and the result goes to a live local.
            unsafe {
                let mut stack: libc::stack_t = mem::zeroed();
                assert_eq!(libc::sigaltstack(ptr::null(), &mut stack), 0);
                (stack.ss_sp, stack.ss_flags, stack.ss_size)
            }
        };
        let before = current();
        let stack = AltStack::install().unwrap();
        let installed = current();
        assert_ne!(installed, before);
        assert!(installed.2 >= 32 * 1024);
        drop(stack);
        assert_eq!(current(), before);
    }

    #[test]
    fn an_alternate_stack_that_comes_back_still_has_its_memory() {
        let first = AltStack::install().unwrap();
        let second = AltStack::install().unwrap();
        drop(first);
        drop(second);
        // SAFETY: zero is a valid `stack_t`, and the result goes to a live local. The kernel reads
        // the byte, or says that there is none.
        unsafe {
            let mut current: libc::stack_t = mem::zeroed();
            assert_eq!(libc::sigaltstack(ptr::null(), &mut current), 0);
            assert_eq!(current.ss_flags & libc::SS_DISABLE, 0);
            let mut resident = 0;
            let page = current.ss_sp.map_addr(|addr| addr & !(page_size() - 1));
            assert_eq!(libc::mincore(page, page_size(), &mut resident), 0, "it is mapped");
        }
    }

    #[test]
    fn a_handler_is_seen_unless_it_is_for_faults() {
        extern "C" fn handler(_: libc::c_int) {}
        let handler = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing.
        let set = |signal, action| unsafe { libc::signal(signal, action) };
        let seen =
            [(libc::SIGTRAP, handler), (libc::SIGUSR2, libc::SIG_IGN), (libc::SIGUSR2, handler)]
                .map(|(signal, action)| {
                    let before = set(signal, action);
                    let seen = any_handler();
                    set(signal, before);
                    seen
                });
        assert_eq!(seen, [false, false, true]);
    }

    #[test]
    fn ignored_signals_are_reported() {
        let ignored = [libc::SIG_IGN, libc::SIG_DFL].map(|action| {
            // SAFETY: no handler is installed; no process sends this signal.
            let before = unsafe { libc::signal(libc::SIGWINCH, action) };
            let ignored = is_ignored(libc::SIGWINCH);
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGWINCH, before) };
            ignored
        });
        assert_eq!(ignored, [true, false]);
    }
}
