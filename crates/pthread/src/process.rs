//! Processes and their libraries: fork, exec, waits for children, loading; all at home.

use std::ffi::{c_char, c_int, c_void};

use daiko_rt::deadlock::sampler::keep_monitors;
use libc::{id_t, idtype_t, pid_t, rusage, siginfo_t};

use crate::descriptor::own;
use crate::door::made_at_home;
use crate::home::{errand, list};
use crate::mask::HeldSignals;
use crate::{dispatch, end, futex, home, poke, real, runtime, stray, waits};

/// # Safety
///
/// As for `fork`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_fork() -> pid_t {
    errand(|| {
        // All locks of the engine, in the order in which other threads take them: the child
        // inherits no lock that is held, and no change that is half made.
        let signals = HeldSignals::hold();
        let _watcher = stray::WATCHER.keep(&signals);
        let _started = runtime::keep(&signals);
        let _numbers = own::keep(&signals);
        let mut homes = list::keep(&signals);
        let _prompter = poke::PROMPTER.keep(&signals);
        let mut sleepers = futex::keep(&signals);
        let _selectors = dispatch::keep_unused();
        let _monitors = keep_monitors();
        // SAFETY: by this function's contract.
        let child = unsafe { libc::fork() };
        if child == 0 {
            homes.forget_others();
            sleepers.forget_others();
            end::forget_others();
            waits::forget_natives();
        }
        child
    })
}

made_at_home! {
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
