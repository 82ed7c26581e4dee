//! Processes and their libraries: fork, exec, waits for children, loading; all at home.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use daiko_rt::deadlock::sampler::keep_monitors;
use libc::{id_t, idtype_t, pid_t, rusage, siginfo_t};

use crate::descriptor::own;
use crate::door::made_at_home;
use crate::home::list;
use crate::mask::HeldSignals;
use crate::{dispatch, end, futex, home, poke, real, runtime, stray, waits};

/// Lets the forking thread hold all locks of the engine, so that a child inherits no lock that is
/// held, and no change that is half made. Handlers that the program sets later run without them:
/// the C library calls them before the locks are taken, and after they were let go.
pub(crate) fn begin() -> Result<(), String> {
    // SAFETY: the handlers may run at any fork.
    match unsafe {
        libc::pthread_atfork(Some(prepare), Some(go_on_in_parent), Some(go_on_in_child))
    } {
        0 => Ok(()),
        error => Err(format!("handlers of forks cannot be set: error {error}")),
    }
}

/// The locks and signals that the forking thread holds. The locks are let go first.
struct Kept {
    locks: Box<dyn Any>,
    signals: HeldSignals,
}

thread_local! {
    /// Its owner, from one handler to the next.
    static KEPT: Cell<*mut Kept> = const { Cell::new(ptr::null_mut()) };
}

unsafe extern "C" fn prepare() {
    let signals = HeldSignals::hold();
    // In the order in which other threads take them.
    let watcher = stray::WATCHER.keep(&signals);
    let started = runtime::keep(&signals);
    let numbers = own::keep(&signals);
    let homes = list::keep(&signals);
    let prompter = poke::PROMPTER.keep(&signals);
    let sleepers = futex::keep(&signals);
    let (selectors, monitors) = (dispatch::keep_unused(), keep_monitors());
    let locks = (monitors, selectors, sleepers, prompter, homes, numbers, started, watcher);
    KEPT.set(Box::into_raw(Box::new(Kept { locks: Box::new(locks), signals })));
}

/// Lets all locks go, and returns the signals, which are still held.
fn let_go() -> HeldSignals {
    // SAFETY: the C library has called `prepare` in this context, once.
    let Kept { locks, signals } = *unsafe { Box::from_raw(KEPT.replace(ptr::null_mut())) };
    drop(locks);
    signals
}

unsafe extern "C" fn go_on_in_parent() {
    let _signals = let_go();
}

/// The calling thread is the only one of the child.
unsafe extern "C" fn go_on_in_child() {
    let signals = let_go();
    list::lock().forget_others();
    futex::forget_others(&signals);
    end::forget_others();
    waits::forget_natives();
}

made_at_home! {
    errand: daiko_fork = fork() -> pid_t;
    errand: daiko_wait = wait(status: *mut c_int) -> pid_t;
    errand: daiko_waitpid = waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    errand: daiko_wait3 = wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    errand: daiko_wait4 = wait4(child: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    errand: daiko_waitid = waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int;
    errand: daiko_system = system(command: *const c_char) -> c_int;
    errand: daiko_popen = popen(command: *const c_char, mode: *const c_char) -> *mut c_void;
    errand: daiko_pclose = pclose(stream: *mut c_void) -> c_int;
    errand: daiko_posix_spawn = posix_spawn(
        child: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int;
    errand: daiko_posix_spawnp = posix_spawnp(
        child: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int;
    errand: daiko_flock = flock(descriptor: c_int, operation: c_int) -> c_int;
    errand: daiko_lockf = lockf(descriptor: c_int, operation: c_int, bytes: libc::off_t) -> c_int;
    errand: daiko_semop = semop(set: c_int, operations: *mut libc::sembuf, count: usize) -> c_int;
    errand: daiko_msgrcv = msgrcv(
        queue: c_int, to: *mut c_void, bytes: usize, kind: libc::c_long, flags: c_int
    ) -> isize;
    errand: daiko_msgsnd = msgsnd(queue: c_int, from: *const c_void, bytes: usize, flags: c_int) -> c_int;
    errand: daiko_getaddrinfo = getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const c_void, result: *mut *mut c_void
    ) -> c_int;
}

/// Declares functions that take any arguments, return twice, or look at their caller: by `settle`,
/// the context goes home until its next wait, and goes on in the C library as if it had been called
/// there.
macro_rules! settled {
    ($settle:path; $($door:ident = $name:ident;)*) => {$(
        /// # Safety
        ///
        /// As for the function of this name in the C library.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C-unwind" fn $door() {
            std::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {settle}",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp {name}",
                settle = sym $settle,
                name = sym real::$name,
            )
        }
    )*};
}

/// The kernel will wake waiters for the end of a thread that it knows alone.
extern "C-unwind" fn leave_for_clone() {
    futex::note_own_threads();
    home::leave_until_wait();
}

settled! { leave_for_clone;
    daiko_clone = clone;
}

settled! { home::leave_until_wait;
    daiko_vfork = vfork;
    daiko_execl = execl;
    daiko_execlp = execlp;
    daiko_execle = execle;
    daiko_execv = execv;
    daiko_execve = execve;
    daiko_execvp = execvp;
    daiko_execvpe = execvpe;
    daiko_fexecve = fexecve;
    daiko_dlopen = dlopen;
    daiko_dlmopen = dlmopen;
    daiko_dlclose = dlclose;
}
