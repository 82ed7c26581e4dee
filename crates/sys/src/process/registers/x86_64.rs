//! The registers of x86-64, as ptrace transfers them.

use std::fmt;
use std::ptr;

use crate::process::ProcessError;
use crate::process::trace::request;

const NT_X86_XSTATE: usize = 0x202;
const NT_PRSTATUS: usize = 1;
/// Upper bound of a processor's extended state in bytes.
const XSTATE: usize = 32 << 10;

/// True: the code of a dead process can be continued.
pub(in crate::process) const ARE_KNOWN: bool = true;

/// The registers of a thread and the signals that it had blocked.
#[derive(Clone)]
pub struct Registers {
    general: libc::user_regs_struct,
    extended: Vec<u8>,
    blocked: u64,
}

impl Registers {
    pub(in crate::process) fn of(pid: u32) -> Result<Box<Self>, ProcessError> {
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

    pub(in crate::process) fn put(&self, pid: u32) -> Result<(), ProcessError> {
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

    /// Transfers one set of registers and returns its size in bytes.
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

    /// The result of its last system call.
    #[cfg(test)]
    pub(in crate::process) fn result(&self) -> i64 {
        self.general.rax as i64
    }

    /// The lowest address of its stack's contents.
    pub fn stack_pointer(&self) -> usize {
        self.general.rsp as usize
    }

    /// The address of the thread's thread-local storage.
    pub fn thread_pointer(&self) -> usize {
        self.general.fs_base as usize
    }

    /// Restarts a system call that the death interrupted, as after a signal. A call that waits for
    /// a duration returns "interrupted" (EINTR) instead, as its start time is lost.
    fn leave_system_call(&mut self) {
        const FIRST: i64 = 512;
        const LAST: i64 = 516;
        let general = &mut self.general;
        let (call, result) = (general.orig_rax as i64, general.rax as i64);
        // Marks "no system call", so that the kernel restarts none by itself.
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

/// Length of the instruction that begins a system call.
const SYSCALL_LEN: u64 = 2;
/// Calls that wait, for a duration or without end. Their callers handle EINTR.
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

/// Returns the address of a stopped thread's next instruction.
pub(in crate::process) fn instruction_of(thread: u32) -> Result<u64, ProcessError> {
    // SAFETY: zero is a valid value of each register.
    let mut general = unsafe { std::mem::zeroed() };
    let mut area = area(&mut general);
    let area = ptr::from_mut(&mut area).expose_provenance();
    request(libc::PTRACE_GETREGSET, thread, NT_PRSTATUS, area)?;
    Ok(general.rip)
}

fn area(general: &mut libc::user_regs_struct) -> libc::iovec {
    libc::iovec {
        iov_base: ptr::from_mut(general).cast(),
        iov_len: size_of::<libc::user_regs_struct>(),
    }
}
