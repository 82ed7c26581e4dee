//! Children whose registers outlive them: what one had at hand when it was killed another can go on with.
//!
//! The kernel lets the tracer of a process look at it once more before it ends, also where it was killed. Nothing else
//! of the child is observed: it runs as fast as others, and stops for its tracer at signals only, which go on to it.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;
use std::time::Duration;

use super::children::wait_status;
use super::{Child, ProcessError};
use crate::thread::{self, errno};

/// A child that the calling thread traces, or would have, had the kernel let it.
///
/// All is to be called by the thread that has forked it.
#[derive(Debug)]
pub struct Traced {
    child: Child,
    /// The kernel's answer where it was asked to trace it; 0: it does.
    refused: i32,
}

/// What has become of a traced child.
#[derive(Debug)]
#[must_use]
pub enum Change {
    /// It was killed: by a signal of others, not by a fault of its own. It had these registers, and is to end so. It is
    /// not gone, and its threads' ids are not given to others, until it is [let go](Traced::let_go).
    Killed(Box<Registers>, ExitStatus),
    /// It has [asked](await_registers) for registers.
    Waits,
    /// It has ended, and was waited for.
    Ended(ExitStatus),
}

impl Traced {
    /// Traces `child`, if the kernel allows it. From then on signals stop it until [`change`](Self::change) is called:
    /// the kernel tells of that, and of its end, by SIGCHLD.
    pub fn new(child: Child) -> Self {
        let options = libc::PTRACE_O_TRACEEXIT as usize;
        let refused = match request(libc::PTRACE_SEIZE, child.pid(), 0, options) {
            Ok(()) => 0,
            Err(_) => errno(),
        };
        Self { child, refused }
    }

    /// As [`new`](Self::new), but does not trace it: the registers of a child that is killed are not known.
    pub fn without(child: Child) -> Self {
        Self { child, refused: 0 }
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The child.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// What the kernel said where it did not let the child be traced, maybe as that had ended.
    pub fn refused(&self) -> Option<io::Error> {
        (self.refused != 0).then(|| io::Error::from_raw_os_error(self.refused))
    }

    /// What has become of it, if anything has. What others send it by signals is passed on.
    pub fn change(&self) -> Option<Change> {
        loop {
            let status = self.wait(libc::WNOHANG)?;
            if let Some(change) = self.attend(status) {
                return Some(change);
            }
        }
    }

    /// Waits until it has ended, also if it was killed; `None` if it was waited for.
    pub fn await_end(&self) -> Option<ExitStatus> {
        loop {
            match self.attend(self.wait(0)?) {
                Some(Change::Ended(end)) => return Some(end),
                Some(Change::Killed(..) | Change::Waits) => self.let_go(),
                None => {}
            }
        }
    }

    /// Has it go on from where it has stopped, unless that is for others to know.
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
            // Stopped as a whole, by SIGSTOP or the like, until somebody continues it.
            (signal, PTRACE_EVENT_STOP) if signal != libc::SIGTRAP => {
                let _ = request(PTRACE_LISTEN, self.pid(), 0, 0);
            }
            (_, PTRACE_EVENT_STOP) => self.go_on(0),
            (ASKS, _) => return Some(Change::Waits),
            (signal, _) => self.go_on(signal),
        }
        None
    }

    /// Has it go on with these registers, which another had. It has [asked](Change::Waits) for them.
    ///
    /// # Errors
    ///
    /// [`ProcessError::NoSuchProcess`] if it was killed meanwhile, another if the kernel does not take the registers.
    ///
    /// # Safety
    ///
    /// All that the code at these registers uses is in this process what and where it was in the other.
    pub unsafe fn give(&self, registers: &Registers) -> Result<(), ProcessError> {
        registers.put(self.pid())?;
        self.go_on(0);
        Ok(())
    }

    /// Waits until a child that was [killed](Change::Killed) has no thread but its first, which is kept: others may come to
    /// their ends later than that one.
    pub fn await_threads(&self) {
        while thread::count_of(self.pid()).is_some_and(|count| count > 1) {
            std::thread::sleep(LOOK);
        }
    }

    /// Gives nothing to a child that has [asked](Change::Waits): somebody else has sent it the signal by which it would have,
    /// which takes its course.
    pub fn turn_down(&self) {
        self.go_on(ASKS);
    }

    /// Lets a child end that was [killed](Change::Killed).
    pub fn let_go(&self) {
        self.go_on(0);
    }

    fn wait(&self, options: libc::c_int) -> Option<libc::c_int> {
        let told = wait_status(self.pid() as libc::pid_t, options | libc::__WALL)?;
        Some(told.1)
    }

    fn go_on(&self, signal: i32) {
        // Refused if it was killed in its stop: then it goes on as well.
        let _ = request(libc::PTRACE_CONT, self.pid(), 0, signal as usize);
    }

    fn look_if_killed(&self) -> Option<Change> {
        let mut status: libc::c_ulong = 0;
        let address = ptr::from_mut(&mut status).expose_provenance();
        request(libc::PTRACE_GETEVENTMSG, self.pid(), 0, address).ok()?;
        let end = ExitStatus::from_raw(status as i32);
        let killed = end.signal().is_some_and(|signal| !FAULTS.contains(&signal));
        // Refused if it was killed once more, so that it did not wait for us.
        let registers = killed.then(|| Registers::of(self.pid()).ok()).flatten()?;
        Some(Change::Killed(registers, end))
    }
}

/// Whether the kernel lets this process trace its children: tries it with one.
///
/// # Errors
///
/// What the kernel said; or why there is no child.
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
    // SAFETY: the child does nothing but wait for signals, which is allowed where the parent has threads.
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
    // SAFETY: takes plain integers; the process is a child, not waited for yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let _ = wait_status(child, libc::__WALL);
    answer
}

/// Signals that tell a process of what it has done itself.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// Stops the calling process, which is traced or about to be, until its tracer [gives](Traced::give) it registers, with which it goes
/// on. Returns only if it has none.
pub fn await_registers() {
    await_tracer();
    // SAFETY: takes plain integers. The signal stops the process for its tracer, who does not pass it on.
    unsafe { libc::kill(libc::getpid(), ASKS) };
}

/// The tracer comes right after the fork.
fn await_tracer() {
    while !is_traced() {
        std::thread::yield_now();
    }
}

/// Time between two looks whether threads have ended.
const LOOK: Duration = Duration::from_micros(50);

/// Whether somebody traces this process; also where `/proc` does not tell.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.map_or(true, |status| !status.contains("TracerPid:\t0\n"))
}

/// By which a traced process says that it waits: a signal that nobody else sends.
const ASKS: i32 = libc::SIGSTKFLT;

// As in linux/ptrace.h.
const PTRACE_LISTEN: libc::c_uint = 0x4208;
const PTRACE_EVENT_STOP: i32 = 128;
const NT_X86_XSTATE: usize = 0x202;
const NT_PRSTATUS: usize = 1;
/// Bytes of a processor's extended state: more than any has.
const XSTATE: usize = 32 << 10;

/// What a thread had in its processor's registers, and which signals it had blocked.
#[derive(Clone)]
pub struct Registers {
    general: libc::user_regs_struct,
    extended: Vec<u8>,
    blocked: u64,
}

impl Registers {
    fn of(pid: u32) -> Result<Box<Self>, ProcessError> {
        // SAFETY: zero is a valid value of each register.
        let general = unsafe { std::mem::zeroed() };
        let mut this = Box::new(Self { general, extended: vec![0; XSTATE], blocked: 0 });
        let general = area(&mut this.general);
        this.transfer(libc::PTRACE_GETREGSET, pid, NT_PRSTATUS, general)?;
        let extended = libc::iovec { iov_base: this.extended.as_mut_ptr().cast(), iov_len: XSTATE };
        let len = this.transfer(libc::PTRACE_GETREGSET, pid, NT_X86_XSTATE, extended)?;
        this.extended.truncate(len);
        let blocked = ptr::from_mut(&mut this.blocked).expose_provenance();
        request(libc::PTRACE_GETSIGMASK, pid, size_of::<u64>(), blocked)?;
        this.leave_system_call();
        Ok(this)
    }

    fn put(&self, pid: u32) -> Result<(), ProcessError> {
        let mut copy = self.clone();
        let extended = libc::iovec {
            iov_base: copy.extended.as_mut_ptr().cast(),
            iov_len: self.extended.len(),
        };
        self.transfer(libc::PTRACE_SETREGSET, pid, NT_X86_XSTATE, extended)?;
        let general = area(&mut copy.general);
        self.transfer(libc::PTRACE_SETREGSET, pid, NT_PRSTATUS, general)?;
        let blocked = ptr::from_mut(&mut copy.blocked).expose_provenance();
        request(libc::PTRACE_SETSIGMASK, pid, size_of::<u64>(), blocked)
    }

    /// Moves one set of registers; how many bytes it has.
    fn transfer(
        &self,
        how: libc::c_uint,
        pid: u32,
        set: usize,
        mut area: libc::iovec,
    ) -> Result<usize, ProcessError> {
        request(how, pid, set, ptr::from_mut(&mut area).expose_provenance())?;
        Ok(area.iov_len)
    }

    /// What it had on its stack, at its end, begins here.
    pub fn stack_pointer(&self) -> usize {
        self.general.rsp as usize
    }

    /// The thread's own storage begins here.
    pub fn thread_pointer(&self) -> usize {
        self.general.fs_base as usize
    }

    /// A system call that the death has interrupted is begun anew, as after a signal; but one that waits for a time,
    /// whose start is forgotten, returns "interrupted" (EINTR).
    fn leave_system_call(&mut self) {
        const FIRST: i64 = 512;
        const LAST: i64 = 516;
        let general = &mut self.general;
        let (call, result) = (general.orig_rax as i64, general.rax as i64);
        // No system call any more, so that the kernel begins none anew by itself.
        general.orig_rax = u64::MAX;
        if call < 0 || !(result == -i64::from(libc::EINTR) || (-LAST..=-FIRST).contains(&result)) {
            return;
        }
        if WAITS.contains(&call) {
            general.rax = -i64::from(libc::EINTR) as u64;
        } else {
            general.rax = call as u64;
            general.rip -= SYSCALL_LEN;
        }
    }
}

/// The instruction that begins a system call.
const SYSCALL_LEN: u64 = 2;
/// Calls that wait, until a time or for good. Who makes them is ready for EINTR.
const WAITS: [i64; 6] = [
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_wait,
    libc::SYS_poll,
];

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let general = &self.general;
        write!(f, "Registers {{ rip: {:#x}, rsp: {:#x}, .. }}", general.rip, general.rsp)
    }
}

fn area(general: &mut libc::user_regs_struct) -> libc::iovec {
    libc::iovec {
        iov_base: ptr::from_mut(general).cast(),
        iov_len: size_of::<libc::user_regs_struct>(),
    }
}

fn request(how: libc::c_uint, pid: u32, address: usize, data: usize) -> Result<(), ProcessError> {
    // SAFETY: the requests made here write to live locals of the size that they expect, if at all, whose address the
    // callers have exposed.
    match unsafe { libc::ptrace(how, pid as libc::pid_t, address, data) } {
        -1 if errno() == libc::ESRCH => Err(ProcessError::NoSuchProcess { pid }),
        -1 => Err(ProcessError::diagnose(errno(), "ptrace", "4.7")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::memory::Mapping;
    use crate::process::{Files, Forked, KILL, Signals, clone_process, exit};
    use crate::testing::in_fork;
    use crate::{Scope, futex, process, thread};

    /// Runs `body` in a process of one thread, if that may trace its children.
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
                // SAFETY: whatever it waits for in vain, this ends it.
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

    /// Counts in a register and in memory, which others have as well, on a stack that they have.
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
    fn count_on(page: &Mapping, top: *mut u8) {
        // SAFETY: the stack is mapped and nobody's, and `count` does not return.
        unsafe {
            std::arch::asm!(
                "mov rsp, {top}",
                "call {count}",
                "ud2",
                top = in(reg) top,
                count = sym count,
                in("rdi") page.start().as_ptr(),
                options(noreturn),
            )
        }
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
    fn a_successor_goes_on_where_the_dead_one_was() {
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
                assert!(thread::exists(now.pid()), "the dead one's id is not another's yet");
                // SAFETY: the stack and the page are shared, and lie where they lay.
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
    fn who_is_killed_in_a_wait_was_interrupted_in_it_and_signals_are_passed_on() {
        in_tracer(|| {
            let page = Mapping::new(4096, Scope::Shared).unwrap();
            let signals = Signals::block(&[process::CHILD_CHANGED]);
            let waits = || {
                // SAFETY: the mapping is zeroed and accessed by atomics only.
                let word =
                    unsafe { std::sync::atomic::AtomicU32::from_ptr(page.start().as_ptr().cast()) };
                shared(&page, 1).store(1, Ordering::Release);
                let waited = futex::wait(word, 0, None, Scope::Shared);
                shared(&page, 2)
                    .store(1 + u64::from(waited == futex::Wait::Interrupted), Ordering::Release);
            };
            let first = traced(waits);
            while shared(&page, 1).load(Ordering::Acquire) == 0
                || thread::blocked_syscall(first.pid()) != Some(thread::FUTEX)
            {
                std::thread::yield_now();
            }
            kill(&first);
            let Change::Killed(registers, _) = next(&first, &signals) else { panic!("not killed") };
            assert_eq!(registers.general.rax as i64, -i64::from(libc::EINTR));
            first.let_go();
            assert_killed(next(&first, &signals));

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
                // Its stops are told, and passed on.
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
