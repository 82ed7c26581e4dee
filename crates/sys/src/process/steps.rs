//! Counting the instructions of a part of a program, by single steps.
//!
//! The program marks the part: [`mark`] before and after it, on one thread. While that thread
//! steps, all other threads of the program are stopped, so none of them changes its path: the count
//! of a part that waits for no other thread is the same each time.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::ptr;

use super::registers;
use crate::arch;

/// Marks the beginning or the end of the part that [`count_steps`] counts.
///
/// # Safety
///
/// [`count_steps`] runs this process: without a tracer, the instruction ends it.
#[inline(never)]
pub unsafe fn mark() {
    // SAFETY: the tracer goes on behind the instruction, and changes no register.
    unsafe { arch::breakpoint() };
}

/// Runs `command`, which [marks](mark) a part of one of its threads, and returns the number of
/// instructions that the thread executes in that part. Then the process is killed. An instruction
/// that repeats itself (`rep movsb`) counts once.
///
/// The calling thread has no other children meanwhile.
///
/// # Errors
///
/// On processors other than x86-64. If the program cannot start, the kernel refuses to trace it, or
/// it ends before the second mark.
pub fn count_steps(command: &mut Command) -> io::Result<u64> {
    if !registers::ARE_KNOWN {
        let reason = "instructions are counted on x86-64 only";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    // SAFETY: the call takes plain integers, and is allowed after a fork from several threads.
    unsafe { command.pre_exec(|| request(libc::PTRACE_TRACEME, 0, 0)) };
    let mut child = command.spawn()?;
    let process = child.id() as libc::pid_t;
    let counted = Tracer { process, threads: BTreeSet::from([process]) }.count();
    // Fails if the process has ended and was waited for.
    let _ = child.kill();
    // Its threads tell their ends to the tracer first. The process may have told its own already.
    while wait_for_any().is_ok_and(|(thread, status)| thread != process || libc::WIFSTOPPED(status))
    {
    }
    counted
}

/// The calling thread, which traces a process and all threads that the process starts.
struct Tracer {
    process: libc::pid_t,
    /// The threads that have not ended.
    threads: BTreeSet<libc::pid_t>,
}

impl Tracer {
    fn count(mut self) -> io::Result<u64> {
        // The stop at the start of the program.
        self.stopped(self.process)?;
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        request(libc::PTRACE_SETOPTIONS, self.process, options as usize)?;
        request(libc::PTRACE_CONT, self.process, 0)?;
        let marked = self.await_mark()?;
        self.stop_others(marked)?;
        self.step_to_mark(marked)
    }

    /// Lets all threads run until one of them is at a mark, and returns it.
    fn await_mark(&mut self) -> io::Result<libc::pid_t> {
        loop {
            let (thread, status) = wait_for_any()?;
            if !libc::WIFSTOPPED(status) {
                self.threads.remove(&thread);
                if thread == self.process {
                    return Err(ended(status));
                }
                continue;
            }
            let is_new = self.threads.insert(thread);
            let signal = match libc::WSTOPSIG(status) {
                libc::SIGTRAP if is_at_mark(thread).unwrap_or(false) => return Ok(thread),
                // The thread has started another, or stops at its own start.
                libc::SIGTRAP => 0,
                libc::SIGSTOP if is_new => 0,
                signal => signal,
            };
            go_on(thread, signal)?;
        }
    }

    /// Stops all threads but one.
    fn stop_others(&self, marked: libc::pid_t) -> io::Result<()> {
        for thread in self.threads.iter().copied().filter(|thread| *thread != marked) {
            // SAFETY: takes plain integers. Fails if the thread has just ended, which the wait
            // tells.
            unsafe { libc::syscall(libc::SYS_tgkill, self.process, thread, libc::SIGSTOP) };
            wait_for(thread)?;
        }
        Ok(())
    }

    /// Counts the instructions of a thread, which is at a mark, until the next mark.
    fn step_to_mark(&self, thread: libc::pid_t) -> io::Result<u64> {
        let (mut steps, mut last) = (0, instruction_of(thread)?);
        loop {
            request(libc::PTRACE_SINGLESTEP, thread, 0)?;
            self.stopped(thread)?;
            if is_at_mark(thread)? {
                return Ok(steps);
            }
            let next = instruction_of(thread)?;
            steps += u64::from(next != last);
            last = next;
        }
    }

    /// Waits until the thread stops.
    fn stopped(&self, thread: libc::pid_t) -> io::Result<()> {
        let status = wait_for(thread)?;
        if libc::WIFSTOPPED(status) { Ok(()) } else { Err(ended(status)) }
    }
}

/// Lets a stopped thread run. The end of the process may have ended the thread during its stop: the
/// next wait tells.
fn go_on(thread: libc::pid_t, signal: libc::c_int) -> io::Result<()> {
    match request(libc::PTRACE_CONT, thread, signal as usize) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        told => told,
    }
}

fn ended(status: libc::c_int) -> io::Error {
    let status = ExitStatus::from_raw(status);
    io::Error::other(format!("the program ended before its second mark: {status}"))
}

/// Returns true if the stopped thread has just executed the instruction of a [`mark`].
fn is_at_mark(thread: libc::pid_t) -> io::Result<bool> {
    const SI_KERNEL: i32 = 0x80;
    // SAFETY: zeros are a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, thread, ptr::from_mut(&mut info).expose_provenance())?;
    Ok((info.si_signo, info.si_code) == (libc::SIGTRAP, SI_KERNEL))
}

/// Returns the address of the stopped thread's next instruction.
fn instruction_of(thread: libc::pid_t) -> io::Result<u64> {
    registers::instruction_of(thread as u32).map_err(io::Error::other)
}

fn request(how: libc::c_uint, thread: libc::pid_t, data: usize) -> io::Result<()> {
    // SAFETY: the requests made here write, if at all, to live locals of the size that they expect,
    // with addresses exposed by the callers.
    match unsafe { libc::ptrace(how, thread, 0usize, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn wait_for(thread: libc::pid_t) -> io::Result<libc::c_int> {
    wait(thread, libc::__WALL).map(|(_, status)| status)
}

/// Waits for a change of any thread that the calling thread traces.
fn wait_for_any() -> io::Result<(libc::pid_t, libc::c_int)> {
    wait(-1, libc::__WALL | libc::__WNOTHREAD)
}

fn wait(thread: libc::pid_t, options: libc::c_int) -> io::Result<(libc::pid_t, libc::c_int)> {
    let told = super::children::wait_status(thread, options);
    told.map(|(thread, status)| (thread as libc::pid_t, status))
        .ok_or_else(io::Error::last_os_error)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Stdio;

    use super::*;
    use crate::process::probe_tracing;

    /// Number of rounds of the loop; set in the traced process.
    const ROUNDS: &str = "DAIKO_TEST_ROUNDS";

    /// A loop of two instructions per round, beside a thread that never waits.
    fn marked_loop(rounds: u64) {
        std::thread::spawn(|| {
            loop {
                std::thread::yield_now();
            }
        });
        // SAFETY: the test runs this process by `count_steps`; the assembly changes its operand.
        unsafe {
            mark();
            arch::count_down(rounds);
            mark();
        }
    }

    fn counted(rounds: &str) -> io::Result<u64> {
        let mut command = Command::new(env::current_exe().expect("the program of the tests"));
        command.args(["--exact", "process::steps::tests::steps_are_the_instructions"]);
        count_steps(command.env(ROUNDS, rounds).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    #[test]
    fn steps_are_the_instructions() {
        if let Ok(rounds) = env::var(ROUNDS) {
            return rounds.parse().map(marked_loop).expect("a number");
        }
        if let Err(error) = probe_tracing() {
            return println!("skipped: processes cannot be traced here: {error}");
        }
        let [once, twice] = ["100", "200"].map(|rounds| counted(rounds).expect("a count"));
        assert_eq!(twice - once, 2 * 100);
        let failed = counted("none").expect_err("the program has no marks");
        assert!(failed.to_string().contains("ended before its second mark"), "{failed}");
    }
}
