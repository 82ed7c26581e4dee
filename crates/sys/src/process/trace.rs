//! Tracing children, so that the registers of a killed child survive: another process can continue
//! with them.
//!
//! The kernel lets a tracer inspect its tracee once more before the tracee ends, even if it was
//! killed. The child is not observed otherwise: it runs at full speed and stops for its tracer at
//! signals only, which the tracer passes on.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;
use std::time::Duration;

use super::children::wait_status;
use super::registers::{self, Registers};
use super::{Child, ProcessError};
use crate::policy;
use crate::thread::{self, errno};

/// A child that the calling thread traces, or that runs untraced because the kernel refused.
///
/// All methods are called by the thread that forked it.
#[derive(Debug)]
pub struct Traced {
    child: Child,
    /// The error number of a refusal to trace; 0 if the child is traced.
    refused: i32,
}

/// A change of a traced child.
#[derive(Debug)]
#[must_use]
pub enum Change {
    /// The child was killed by a signal from outside, not by a fault of its own. It had these
    /// registers and will have this status. The process is not gone, and the ids of its threads are
    /// not reused, until it is [let go](Traced::let_go).
    Killed(Box<Registers>, ExitStatus),
    /// The child has [asked](await_registers) for registers.
    Waits,
    /// The child has ended and was waited for.
    Ended(ExitStatus),
}

impl Traced {
    /// Traces `child` if the kernel allows it. From then on signals stop the child until
    /// [`change`](Self::change) is called: the kernel reports stops and the end by SIGCHLD.
    pub fn new(child: Child) -> Self {
        if !registers::ARE_KNOWN {
            return Self { child, refused: libc::ENOSYS };
        }
        let options = libc::PTRACE_O_TRACEEXIT as usize;
        let refused = match request(libc::PTRACE_SEIZE, child.pid(), 0, options) {
            Ok(()) => 0,
            Err(_) => errno(),
        };
        Self { child, refused }
    }

    /// Takes `child` without tracing it: if it is killed, its registers are unknown.
    pub fn without(child: Child) -> Self {
        Self { child, refused: 0 }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The child.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// The kernel's reason for refusing to trace the child, which may have ended already.
    pub fn refused(&self) -> Option<io::Error> {
        (self.refused != 0).then(|| io::Error::from_raw_os_error(self.refused))
    }

    /// The next change of the child, if there is one. Signals sent to the child are passed on.
    pub fn change(&self) -> Option<Change> {
        loop {
            let status = self.wait(libc::WNOHANG)?;
            if let Some(change) = self.attend(status) {
                return Some(change);
            }
        }
    }

    /// Waits for the end of the child, even if it was killed; `None` if it was waited for
    /// elsewhere.
    pub fn await_end(&self) -> Option<ExitStatus> {
        loop {
            match self.attend(self.wait(0)?) {
                Some(Change::Ended(end)) => return Some(end),
                Some(Change::Killed(..) | Change::Waits) => self.let_go(),
                None => {}
            }
        }
    }

    /// Lets the child continue from a stop, unless the caller must know about the stop.
    fn attend(&self, status: libc::c_int) -> Option<Change> {
        if !libc::WIFSTOPPED(status) {
            return Some(Change::Ended(ExitStatus::from_raw(status)));
        }
        match (libc::WSTOPSIG(status), status >> 16) {
            (_, libc::PTRACE_EVENT_EXIT) => {
                let killed = self.look_if_killed();
                if killed.is_none() {
                    self.let_go();
                }
                return killed;
            }
            // SIGSTOP or the like stopped the whole process until a SIGCONT.
            (signal, PTRACE_EVENT_STOP) if signal != libc::SIGTRAP => {
                let _ = request(PTRACE_LISTEN, self.pid(), 0, 0);
            }
            (_, PTRACE_EVENT_STOP) => self.go_on(0),
            (ASKS, _) => return Some(Change::Waits),
            (signal, _) => self.go_on(signal),
        }
        None
    }

    /// Lets the child continue with these registers of another process. The child has
    /// [asked](Change::Waits) for registers.
    ///
    /// # Errors
    ///
    /// [`ProcessError::NoSuchProcess`] if the child was killed meanwhile, another error if the
    /// kernel does not take the registers.
    ///
    /// # Safety
    ///
    /// All that the code at these registers uses has the same address and contents in this process
    /// as it had in the other.
    pub unsafe fn give(&self, registers: &Registers) -> Result<(), ProcessError> {
        registers.put(self.pid())?;
        self.go_on(0);
        Ok(())
    }

    /// Waits until the [killed](Change::Killed) child has no thread but its first, which is kept:
    /// the other threads may end later than the first.
    pub fn await_threads(&self) {
        while thread::count_of(self.pid()).is_some_and(|count| count > 1) {
            std::thread::sleep(LOOK);
        }
    }

    /// Rejects a request for registers: the child did not [ask](Change::Waits), but was sent that
    /// signal from outside. The signal takes effect.
    pub fn turn_down(&self) {
        self.go_on(ASKS);
    }

    /// Lets a [killed](Change::Killed) child end.
    pub fn let_go(&self) {
        self.go_on(0);
    }

    fn wait(&self, options: libc::c_int) -> Option<libc::c_int> {
        let told = wait_status(self.pid() as libc::pid_t, options | libc::__WALL)?;
        Some(told.1)
    }

    fn go_on(&self, signal: i32) {
        // Refused if the child was killed during its stop: then it continues as well.
        let _ = request(libc::PTRACE_CONT, self.pid(), 0, signal as usize);
    }

    fn look_if_killed(&self) -> Option<Change> {
        let mut status: libc::c_ulong = 0;
        let address = ptr::from_mut(&mut status).expose_provenance();
        request(libc::PTRACE_GETEVENTMSG, self.pid(), 0, address).ok()?;
        let end = ExitStatus::from_raw(status as i32);
        let killed = end.signal().is_some_and(|signal| !FAULTS.contains(&signal));
        // Refused if the child was killed once more, as it then did not wait for its tracer.
        let registers = killed.then(|| Registers::of(self.pid()).ok()).flatten()?;
        Some(Change::Killed(registers, end))
    }
}

/// Checks that the kernel lets this process trace its children, by a trial with one child.
///
/// # Errors
///
/// The kernel's refusal, or the error of `fork`; `Unsupported` on processors other than x86-64.
///
/// # Examples
///
/// ```
/// match daiko_sys::process::probe_tracing() {
///     Ok(()) => println!("a worker's death can be looked into"),
///     Err(error) => println!("processes cannot be traced here: {error}"),
/// }
/// ```
pub fn probe_tracing() -> io::Result<()> {
    if !registers::ARE_KNOWN {
        let reason = "registers are taken over on x86-64 only";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    // SAFETY: the child only waits for signals, which is allowed after a fork from several threads.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => loop {
            // SAFETY: as above.
            unsafe { libc::pause() };
        },
        child => child,
    };
    let answer = request(libc::PTRACE_SEIZE, child as u32, 0, 0);
    let answer = answer.map(drop).map_err(|_| io::Error::from_raw_os_error(errno()));
    // SAFETY: takes plain integers; the process is a child that was not waited for yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let _ = wait_status(child, libc::__WALL);
    answer
}

/// Signals that report a process's own fault.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// Stops the calling process, which is traced or about to be, until its tracer
/// [gives](Traced::give) it registers to continue with. Returns only if the tracer has none.
pub fn await_registers() {
    await_tracer();
    // SAFETY: takes plain integers. The signal stops the process for its tracer, which does not
    // pass it on.
    unsafe { libc::kill(libc::getpid(), ASKS) };
}

/// Waits until this process is traced. The tracer attaches right after the fork.
fn await_tracer() {
    while !is_traced() {
        policy::give_way();
    }
}

/// Time between two checks that threads have ended.
const LOOK: Duration = Duration::from_micros(50);

/// Returns true if this process is traced, or if `/proc` cannot be read.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.map_or(true, |status| !status.contains("TracerPid:\t0\n"))
}

/// Signal by which a traced process asks for registers. It has no other sender.
const ASKS: i32 = libc::SIGSTKFLT;

// Values from linux/ptrace.h.
const PTRACE_LISTEN: libc::c_uint = 0x4208;
const PTRACE_EVENT_STOP: i32 = 128;

pub(super) fn request(
    how: libc::c_uint,
    pid: u32,
    address: usize,
    data: usize,
) -> Result<(), ProcessError> {
    // SAFETY: the requests made here write, if at all, to live locals of the size that they expect,
    // with addresses exposed by the callers.
    match unsafe { libc::ptrace(how, pid as libc::pid_t, address, data) } {
        -1 if errno() == libc::ESRCH => Err(ProcessError::NoSuchProcess { pid }),
        -1 => Err(ProcessError::diagnose(errno(), "ptrace", "4.7")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::arch;
    use crate::atomic::{AtomicU64, Ordering};
    use crate::memory::Mapping;
    use crate::process::{Files, Forked, KILL, Signals, clone_process, exit};
    use crate::testing::in_fork;
    use crate::{Scope, futex, process, signal, thread};

    /// Runs `body` in a process of one thread, if that process may trace its children.
    #[track_caller]
    fn in_tracer(body: impl FnOnce()) {
        match probe_tracing() {
            Ok(()) => in_fork(body),
            Err(error) => println!("skipped: processes cannot be traced here: {error}"),
        }
    }

    fn shared(page: &Mapping, index: usize) -> &AtomicU64 {
        // SAFETY: the mapping is zeroed, aligned, and accessed by such atomics only.
        unsafe { AtomicU64::from_ptr(page.start().as_ptr().cast::<u64>().add(index)) }
    }

    fn traced(body: impl FnOnce()) -> Traced {
        // SAFETY: the child ends here and closes nothing.
        match unsafe { clone_process(Files::Copied) }.unwrap() {
            Forked::Parent(child) => {
                let traced = Traced::new(child);
                assert!(traced.refused().is_none());
                traced
            }
            Forked::Child => {
                // SAFETY: takes a plain integer. Ends the child if it waits in vain.
                unsafe { libc::alarm(60) };
                await_tracer();
                body();
                exit(0)
            }
        }
    }

    fn next(traced: &Traced, signals: &Signals) -> Change {
        loop {
            if let Some(change) = traced.change() {
                return change;
            }
            signals.next();
        }
    }

    fn kill(traced: &Traced) {
        traced.child().held().send(KILL).unwrap();
    }

    fn assert_killed(change: Change) {
        let Change::Ended(status) = change else { panic!("{change:?}") };
        assert_eq!(status.signal(), Some(KILL));
    }

    /// Counts in a register and in shared memory, on a shared stack.
    unsafe extern "C" fn count(page: *mut u8) -> ! {
        // SAFETY: the mapping's words are accessed by such atomics only.
        let [counted, wrong, over] =
            [0, 1, 2].map(|index| unsafe { AtomicU64::from_ptr(page.cast::<u64>().add(index)) });
        let mut mine = 0_u64;
        while over.load(Ordering::Relaxed) == 0 {
            if counted.load(Ordering::Relaxed) != mine {
                wrong.store(1, Ordering::Relaxed);
            }
            mine += 1;
            counted.store(mine, Ordering::Relaxed);
        }
        exit(7)
    }

    /// Calls `count` on the stack that ends at `top`.
    fn count_on(page: &Mapping, top: *mut u8) -> ! {
        // SAFETY: the stack is mapped and unused, and the page stays mapped.
        unsafe { arch::call_on(top, count, page.start().as_ptr()) }
    }

    #[test]
    fn a_killed_child_is_kept_when_its_other_threads_are_gone() {
        in_tracer(|| {
            let page = Mapping::new(4096, Scope::Shared).unwrap();
            let signals = Signals::block(&[process::CHILD_CHANGED]);
            let child = traced(|| {
                let runs = shared(&page, 0).as_ptr().expose_provenance();
                for _ in 0..20 {
                    let run = move || loop {
                        // SAFETY: the mapping stays until the process ends.
                        unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(runs)) }
                            .fetch_add(1, Ordering::Relaxed);
                    };
                    thread::start(c"spins", run).unwrap();
                }
                loop {
                    std::thread::yield_now();
                }
            });
            while shared(&page, 0).load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            kill(&child);
            assert!(matches!(next(&child, &signals), Change::Killed(..)));
            child.await_threads();
            let last = shared(&page, 0).load(Ordering::Relaxed);
            assert_eq!(thread::count_of(child.pid()), Some(1));
            child.let_go();
            assert_killed(next(&child, &signals));
            assert_eq!(shared(&page, 0).load(Ordering::Relaxed), last);
        });
    }

    #[test]
    fn a_successor_continues_at_the_state_of_the_dead_process() {
        in_tracer(|| {
            let (page, stack) =
                [4096, 65536].map(|len| Mapping::new(len, Scope::Shared).unwrap()).into();
            let (page, stack): (Mapping, Mapping) = (page, stack);
            // SAFETY: the end of the mapping.
            let top = unsafe { stack.start().as_ptr().add(65536) };
            let signals = Signals::block(&[process::CHILD_CHANGED]);
            let mut now = traced(|| count_on(&page, top));
            for _ in 0..100 {
                let before = shared(&page, 0).load(Ordering::Relaxed);
                while shared(&page, 0).load(Ordering::Relaxed) < before + 1000 {
                    std::thread::yield_now();
                }
                kill(&now);
                let Change::Killed(registers, _) = next(&now, &signals) else {
                    panic!("not killed")
                };
                assert!(
                    (stack.start().addr().get()..=top.addr()).contains(&registers.stack_pointer())
                );
                let successor = traced(await_registers);
                assert!(matches!(next(&successor, &signals), Change::Waits));
                assert!(thread::exists(now.pid()), "the id of the dead process is not reused yet");
                // SAFETY: the stack and the page are shared and have the same addresses.
                unsafe { successor.give(&registers) }.unwrap();
                now.let_go();
                assert_killed(next(&now, &signals));
                now = successor;
            }
            shared(&page, 2).store(1, Ordering::Relaxed);
            let Change::Ended(status) = next(&now, &signals) else { panic!("it goes on") };
            assert_eq!((status.code(), shared(&page, 1).load(Ordering::Relaxed)), (Some(7), 0));
        });
    }

    #[test]
    fn a_kill_in_a_wait_interrupts_it_and_signals_are_passed_on() {
        in_tracer(|| {
            let page = Mapping::new(4096, Scope::Shared).unwrap();
            let signals = Signals::block(&[process::CHILD_CHANGED]);
            let waits = || {
                // SAFETY: the mapping is zeroed and accessed by atomics only.
                let word =
                    unsafe { crate::atomic::AtomicU32::from_ptr(page.start().as_ptr().cast()) };
                shared(&page, 1).store(1, Ordering::Release);
                let waited = futex::wait(word, 0, None, Scope::Shared);
                shared(&page, 2)
                    .store(1 + u64::from(waited == futex::WaitEnd::Interrupted), Ordering::Release);
            };
            let first = traced(waits);
            while shared(&page, 1).load(Ordering::Acquire) == 0
                || thread::blocked_syscall(first.pid()) != Some(thread::FUTEX)
            {
                std::thread::yield_now();
            }
            kill(&first);
            let Change::Killed(registers, _) = next(&first, &signals) else { panic!("not killed") };
            assert_eq!(registers.result(), -i64::from(libc::EINTR));
            first.let_go();
            assert_killed(next(&first, &signals));

            // The process that runs the tests may ignore it.
            signal::restore_default(process::TERMINATE);
            let second = traced(|| {
                loop {
                    std::thread::park();
                }
            });
            second.child().held().send(process::TERMINATE).unwrap();
            let Change::Killed(_, end) = next(&second, &signals) else { panic!("it ends") };
            assert_eq!(end.signal(), Some(process::TERMINATE));
            second.let_go();
            assert_eq!(second.await_end(), Some(end));

            let third = traced(|| std::process::abort());
            let Change::Ended(end) = next(&third, &signals) else {
                panic!("it has done that itself")
            };
            assert_eq!(end.signal(), Some(libc::SIGABRT));
        });
    }

    #[test]
    fn a_process_that_is_stopped_stays_so_until_it_is_continued() {
        in_tracer(|| {
            let page = Mapping::new(4096, Scope::Shared).unwrap();
            let signals = Signals::block(&[process::CHILD_CHANGED]);
            let counts = traced(|| {
                loop {
                    shared(&page, 0).fetch_add(1, Ordering::Relaxed);
                }
            });
            counts.child().held().send(libc::SIGSTOP).unwrap();
            let path = format!("/proc/{}/stat", counts.pid());
            while !std::fs::read_to_string(&path).unwrap().contains(") t ") {
                // Its stops are reported and passed on.
                if counts.change().is_none() {
                    std::thread::yield_now();
                }
            }
            signals.next();
            assert!(counts.change().is_none());
            let seen = shared(&page, 0).load(Ordering::Relaxed);
            (0..1000).for_each(|_| std::thread::yield_now());
            assert_eq!(shared(&page, 0).load(Ordering::Relaxed), seen);
            counts.child().held().send(libc::SIGCONT).unwrap();
            while shared(&page, 0).load(Ordering::Relaxed) == seen {
                if counts.change().is_none() {
                    std::thread::yield_now();
                }
            }
            kill(&counts);
            assert_eq!(counts.await_end().unwrap().signal(), Some(KILL));
            assert!(counts.await_end().is_none() && counts.change().is_none());
        });
    }
}
