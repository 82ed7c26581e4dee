//! Starting programs of the tests where an emulator runs them (`tools/ports`), and the parts of
//! Linux that it may lack.
//!
//! Tests of several crates include this file by its path.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

use std::path::Path;
use std::process::Command;
use std::{env, fs, io, ptr};

/// The emulator with its options, apart by spaces.
const EMULATOR: &str = "DAIKO_TEST_EMULATOR";

fn is_emulated() -> bool {
    env::var_os(EMULATOR).is_some()
}

/// Returns true if an emulator runs the tests, and tells that a test is skipped for that reason.
pub(crate) fn is_skipped(reason: &str) -> bool {
    if is_emulated() {
        println!("skipped: an emulator runs this program, {reason}");
    }
    is_emulated()
}

/// A part of Linux that tests need, which qemu-user leaves out or pretends to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinuxPart {
    /// The size limit of the address space.
    AddressLimit,
    /// The files of `/proc` that tell the system call in which a thread waits.
    Calls,
    /// The function `clone` with the flags for worker processes.
    Clone,
    /// Filters of system calls.
    Filters,
    /// Reads and writes of memory by process and address.
    ProcessMemory,
    /// Reads with flags.
    ReadFlags,
    /// The advice to populate memory.
    Populate,
    /// The advice to free pages of shared memory.
    Removal,
    /// Areas of restartable sequences.
    RestartableSequences,
    /// Lists of robust mutexes.
    RobustLists,
    /// Tracing of processes.
    Tracing,
    /// The advice to wipe memory in forked children.
    Wiping,
}

impl LinuxPart {
    /// Returns true if an emulator runs the tests and lacks this part, and tells that a test is
    /// skipped for that reason. A kernel is not asked.
    pub(crate) fn is_lacking(self) -> bool {
        let is_lacking = is_emulated() && !self.is_there();
        if is_lacking {
            println!("skipped: an emulator runs this program, which {}", self.lack());
        }
        is_lacking
    }

    fn lack(self) -> &'static str {
        match self {
            Self::AddressLimit => "ignores RLIMIT_AS",
            Self::Calls => "shows the numbers of its host's system calls in /proc",
            Self::Clone => "has neither PR_GET_TID_ADDRESS nor CLONE_FILES for processes",
            Self::Filters => "has no PR_SET_SECCOMP",
            Self::ProcessMemory => "has no process_vm_readv",
            Self::ReadFlags => "has no preadv2",
            Self::Populate => "ignores MADV_POPULATE_WRITE",
            Self::Removal => "ignores MADV_REMOVE",
            Self::RestartableSequences => "has no rseq",
            Self::RobustLists => "has no set_robust_list",
            Self::Tracing => "has no ptrace",
            Self::Wiping => "ignores MADV_WIPEONFORK",
        }
    }

    fn is_there(self) -> bool {
        match self {
            Self::AddressLimit => limits_addresses(),
            Self::Calls => {
                let call = fs::read_to_string("/proc/thread-self/syscall").unwrap_or_default();
                call.split(' ').next() == Some(&libc::SYS_read.to_string())
            }
            Self::Clone => {
                let mut address = 0usize;
                // SAFETY: this option stores an address to a live local.
                unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut address) == 0 }
            }
            Self::Filters => {
                let none = ptr::null_mut::<libc::sock_fprog>();
                // SAFETY: no filter is installed: the kernel finds no program at null.
                unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, none) };
                errno() == libc::EFAULT
            }
            Self::ProcessMemory => has_call(libc::SYS_process_vm_readv),
            Self::ReadFlags => has_call(libc::SYS_preadv2),
            Self::Populate => populates(),
            Self::Removal => is_clear_after(libc::MAP_SHARED, libc::MADV_REMOVE, |read| read()),
            Self::RestartableSequences => has_call(libc::SYS_rseq),
            Self::RobustLists => has_call(libc::SYS_get_robust_list),
            Self::Tracing => has_call(libc::SYS_ptrace),
            Self::Wiping => is_clear_after(libc::MAP_PRIVATE, libc::MADV_WIPEONFORK, in_fork),
        }
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns true if there is such a system call.
fn has_call(number: libc::c_long) -> bool {
    // SAFETY: none of the calls asked for finds anything to do by these arguments.
    unsafe { libc::syscall(number, -1, -1, -1, -1, -1, -1) };
    errno() != libc::ENOSYS
}

fn limits_addresses() -> bool {
    let limit = |soft| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get a live local. The limit is above all that programs can use.
        unsafe {
            libc::getrlimit(libc::RLIMIT_AS, &mut limit);
            let before = limit.rlim_cur;
            limit.rlim_cur = soft;
            libc::setrlimit(libc::RLIMIT_AS, &limit);
            before
        }
    };
    let before = limit(1 << 60);
    limit(before) == 1 << 60
}

/// Maps a page.
fn page(protection: i32, sharing: i32) -> (*mut u8, usize) {
    // SAFETY: a new mapping, which stays.
    unsafe {
        let bytes = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let flags = sharing | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        (page.cast(), bytes)
    }
}

/// Returns true if a page that may not be written to cannot be populated.
fn populates() -> bool {
    let (page, bytes) = page(libc::PROT_READ, libc::MAP_PRIVATE);
    // SAFETY: the page is unused.
    unsafe { libc::madvise(page.cast(), bytes, libc::MADV_POPULATE_WRITE) != 0 }
}

/// Returns true if a page with this advice is read as cleared.
fn is_clear_after(sharing: i32, advice: i32, read: fn(&dyn Fn() -> bool) -> bool) -> bool {
    let (page, bytes) = page(libc::PROT_READ | libc::PROT_WRITE, sharing);
    // SAFETY: the page is unused, and stays mapped.
    unsafe {
        page.write_volatile(1);
        libc::madvise(page.cast(), bytes, advice);
        read(&|| page.read_volatile() == 0)
    }
}

/// Returns the value of `body`, which only reads memory, in a forked child.
fn in_fork(body: &dyn Fn() -> bool) -> bool {
    let mut status = 0;
    // SAFETY: the child takes no lock and ends at once.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(!body())),
            child => libc::waitpid(child, &mut status, 0),
        };
    }
    status == 0
}

/// Returns the command that runs a program that was built with the tests.
pub(crate) fn program(path: &Path) -> Command {
    let words = env::var(EMULATOR).unwrap_or_default();
    let mut words = words.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(path) };
    let mut command = Command::new(emulator);
    command.args(words).arg(path);
    command
}

/// Returns the command that runs this test binary.
pub(crate) fn own_program() -> Command {
    program(&env::current_exe().expect("the program of the tests"))
}
