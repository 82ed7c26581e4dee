//! Kernel threads: start, identity, timer slack, and the system call that blocks a thread.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use crate::arch;

thread_local! {
    /// The thread's id once it was asked for; 0 before; `NEVER` if it is not to be kept.
    static ID: Cell<u32> = const { Cell::new(0) };
}

/// The value of `ID` in storage that kernel threads take turns with.
const NEVER: u32 = u32::MAX;

/// The calling thread's id in the kernel, which `/proc/self/task` lists.
pub fn id() -> u32 {
    // SAFETY: `gettid` takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// [`id`], without a system call if this thread has asked before.
///
/// A forked child gets its parent's id until [`forget_cached_id`].
#[inline]
pub fn cached_id() -> u32 {
    match ID.get() {
        0 => {
            ID.set(id());
            ID.get()
        }
        NEVER => id(),
        known => known,
    }
}

/// Makes [`cached_id`] ask the kernel each time: the calling context takes its thread-locals along
/// to other kernel threads.
pub(crate) fn never_cache_id() {
    ID.set(NEVER);
}

/// Makes [`cached_id`] ask the kernel again. A forked child calls this first if it takes locks of a
/// mapping that it shares with its parent.
pub fn forget_cached_id() {
    ID.set(0);
}

/// Returns the address of the head of the calling thread's list of robust mutexes, which the kernel
/// walks when the thread dies.
///
/// # Errors
///
/// The kernel refuses to tell.
pub fn robust_list() -> io::Result<usize> {
    let (mut head, mut len) = (0_usize, 0_usize);
    // SAFETY: the kernel writes two words to live locals.
    match unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut len) } {
        0 => Ok(head),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to a thread of this process. Returns false if there is no such thread.
pub fn send(id: u32, signal: libc::c_int) -> bool {
    // SAFETY: it takes plain integers.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), id, signal) == 0 }
}

/// Opens a pidfd of any thread, which never refers to another thread with its id.
///
/// # Errors
///
/// There is no such thread, or the kernel is older than 6.9.
pub fn open(id: u32) -> io::Result<OwnedFd> {
    /// `PIDFD_THREAD` of linux/pidfd.h.
    const PIDFD_THREAD: c_int = libc::O_EXCL;
    // SAFETY: it takes plain integers.
    match unsafe { libc::syscall(libc::SYS_pidfd_open, id as libc::pid_t, PIDFD_THREAD) } {
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        descriptor @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor as c_int) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns true if a thread of any process has this id. An ended thread counts until it is waited
/// for.
pub fn exists(id: u32) -> bool {
    // SAFETY: `kill` without a signal only looks up the thread.
    unsafe { libc::kill(id as libc::pid_t, 0) == 0 || errno() != libc::ESRCH }
}

/// Bytes of the stack of a thread started by [`start`], the same as in the standard library.
const STACK: usize = 2 << 20;

/// Starts a detached thread of this name, unknown to the standard library. It ends with `body`.
///
/// Meant for processes that share one heap but not their statics. The standard library enters each
/// thread that it starts in a table that has been on the heap since before `main`, so all forked
/// processes would write to one table. The table serves the message about a stack overflow: a
/// thread outside the table is killed without a message.
///
/// If `body` panics, the process aborts.
///
/// # Errors
///
/// The error of `pthread_create`: no more threads are possible.
pub fn start<F: FnOnce() + Send + 'static>(name: &'static CStr, body: F) -> io::Result<()> {
    let body = Box::into_raw(Box::new((name, body)));
    // SAFETY: `run` takes the box behind the pointer, once, on the new thread.
    let started = unsafe { start_detached(run::<F>, body.cast()) };
    // SAFETY: no thread was started that could have taken the box.
    started.inspect_err(|_| drop(unsafe { Box::from_raw(body) }))
}

extern "C" fn run<F: FnOnce()>(body: *mut c_void) -> *mut c_void {
    // SAFETY: `start` leaked the box for this thread alone.
    let (name, body) = *unsafe { Box::from_raw(body.cast::<(&CStr, F)>()) };
    // SAFETY: this `prctl` option reads a string, of which it keeps 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    body();
    ptr::null_mut()
}

/// # Safety
///
/// `run` can be called with `arg` on another thread.
unsafe fn start_detached(
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    arg: *mut c_void,
) -> io::Result<()> {
    let mut attributes = MaybeUninit::uninit();
    let (mut thread, at) = (0, attributes.as_mut_ptr());
    // SAFETY: the attributes are initialised first and destroyed last; the two setters take plain
    // values. The caller's promise covers `run` and `arg`.
    unsafe {
        check(libc::pthread_attr_init(at))?;
        let set = check(libc::pthread_attr_setdetachstate(at, libc::PTHREAD_CREATE_DETACHED))
            .and_then(|()| check(libc::pthread_attr_setstacksize(at, STACK)));
        let started = set.and_then(|()| check(libc::pthread_create(&mut thread, at, run, arg)));
        let _ = libc::pthread_attr_destroy(at);
        started
    }
}

/// Converts the result of a pthread function.
fn check(error: c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Lets the kernel delay the calling thread's timeouts by at most `slack_ns` (default 50,000; 0
/// restores it).
///
/// # Errors
///
/// The error of `prctl(PR_SET_TIMERSLACK)`.
pub fn set_timer_slack_ns(slack_ns: u32) -> io::Result<()> {
    // All arguments, as the C library passes on whatever lies in their registers, which valgrind
    // reports.
    let (slack, none): (libc::c_ulong, libc::c_ulong) = (slack_ns.into(), 0);
    // SAFETY: this `prctl` option takes one plain integer.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, none, none, none) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Number of the system call that waits on a futex, for comparison with [`blocked_syscall`].
pub const FUTEX: i64 = libc::SYS_futex;

/// The number of the system call that blocks thread `id`, of this process or a process that it may
/// trace.
///
/// `None` if the thread runs or has ended, or the kernel does not report it. Allocates nothing.
///
/// # Examples
///
/// ```
/// assert_eq!(daiko_sys::thread::blocked_syscall(u32::MAX), None, "no such thread");
/// ```
pub fn blocked_syscall(id: u32) -> Option<i64> {
    parse_syscall(read_syscall(id, &mut [0; 256])?)
}

/// The name of a system call that blocks threads; `None` for a number that is not listed here.
pub fn syscall_name(number: i64) -> Option<&'static str> {
    let names = [
        (libc::SYS_accept, "accept"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_fdatasync, "fdatasync"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_fsync, "fsync"),
        (FUTEX, "futex"),
        (libc::SYS_io_uring_enter, "io_uring_enter"),
        (libc::SYS_ioctl, "ioctl"),
        (libc::SYS_msync, "msync"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_pselect6, "pselect6"),
        (libc::SYS_pwrite64, "pwrite64"),
        (libc::SYS_read, "read"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
        (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
        (libc::SYS_semop, "semop"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_write, "write"),
        (libc::SYS_writev, "writev"),
    ];
    names
        .into_iter()
        .chain(arch::OLD_CALLS)
        .find_map(|(known, name)| (known == number).then_some(name))
}

/// Returns true if thread `id` of this process is blocked until another thread of this process
/// wakes it: in a private futex, without a timeout.
///
/// False also if there is no such thread or the kernel does not report it. Allocates nothing.
pub fn waits_for_another(id: u32) -> bool {
    read_syscall(id, &mut [0; 256]).is_some_and(says_endless_wait)
}

/// Returns the address of the futex that blocks thread `id` of this process.
///
/// `None` if the thread is not blocked in a futex, or the kernel does not report it.
pub fn awaited_futex(id: u32) -> Option<usize> {
    parse_futex(read_syscall(id, &mut [0; 256])?)
}

fn read_syscall(id: u32, text: &mut [u8; 256]) -> Option<&str> {
    let mut path = [0; 48];
    let mut rest = &mut path[..];
    write!(rest, "/proc/{id}/syscall").ok()?;
    let free = rest.len();
    let path = str::from_utf8(&path[..path.len() - free]).ok()?;
    let len = File::open(path).ok()?.read(text).ok()?;
    str::from_utf8(&text[..len]).ok()
}

/// Parses `/proc/ID/syscall`. A running thread reads `running`; a thread blocked outside of a
/// system call reads -1.
#[doc(hidden)]
pub fn parse_syscall(text: &str) -> Option<i64> {
    let number: i64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (number >= 0).then_some(number)
}

/// Parses `/proc/ID/syscall` for [`awaited_futex`].
fn parse_futex(text: &str) -> Option<usize> {
    let address = text.split_ascii_whitespace().nth(1)?.strip_prefix("0x")?;
    let is_futex = parse_syscall(text) == Some(FUTEX);
    usize::from_str_radix(address, 16).ok().filter(|_| is_futex)
}

/// Parses `/proc/ID/syscall` for [`waits_for_another`]. The arguments follow the number: of a futex
/// call the address, the operation, the expected value, and the address of the timeout.
#[doc(hidden)]
pub fn says_endless_wait(text: &str) -> bool {
    let arguments = text.split_ascii_whitespace().skip(1).take(4);
    let argument = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let arguments: [Option<u64>; 4] = {
        let mut parsed = arguments.map(argument);
        std::array::from_fn(|_| parsed.next().flatten())
    };
    let [_, Some(operation), _, Some(0)] = arguments else { return false };
    let command = operation as libc::c_int & libc::FUTEX_CMD_MASK;
    parse_syscall(text) == Some(FUTEX)
        && operation as libc::c_int & libc::FUTEX_PRIVATE_FLAG != 0
        && matches!(command, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
}

/// The ids of all threads of this process, ascending.
///
/// # Errors
///
/// The error of reading `/proc/self/task`.
///
/// # Examples
///
/// ```
/// assert!(daiko_sys::thread::all().unwrap().contains(&daiko_sys::thread::id()));
/// ```
pub fn all() -> io::Result<Vec<u32>> {
    let mut ids = listed()?;
    loop {
        // If a thread ends right after the kernel has listed it, the kernel goes on by the number
        // of threads that it has listed, and so leaves out a later one. The next list lacks the
        // thread that has ended.
        let again = listed()?;
        if again == ids {
            return Ok(ids);
        }
        ids = again;
    }
}

/// Returns the ids of threads of this process, ascending; a thread that ends may hide another one.
fn listed() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        ids.extend(task?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// The number of threads of process `id`, including threads that are about to end; `None` if there
/// is no such process or the kernel does not report it.
pub fn count_of(id: u32) -> Option<usize> {
    Some(std::fs::read_dir(format!("/proc/{id}/task")).ok()?.count())
}

/// The name of thread `id` of this process, of which the kernel keeps 15 bytes.
///
/// `None` if there is no such thread or the kernel does not report it.
pub fn name_of(id: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/self/task/{id}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: the address is this thread's own errno, valid while it lives.
    unsafe { *libc::__errno_location() }
}

/// Returns true if the thread with this id, of any process, runs or waits for a CPU only.
///
/// False also if there is no such thread.
pub fn is_runnable(thread: u32) -> bool {
    state(thread) == Some('R')
}

/// Returns true if `/proc/ID/stat` says so: see [`is_runnable`].
#[doc(hidden)]
pub fn says_runnable(stat: &[u8]) -> bool {
    parse_state(stat) == Some('R')
}

/// The state of the thread with this id, of any process, by the letter that `ps` shows: `R` if it
/// runs or waits for a CPU, `S` if it sleeps, `D` if no signal ends its sleep, `T` or `t` if it is
/// stopped.
///
/// `None` if there is no such thread.
pub fn state(thread: u32) -> Option<char> {
    std::fs::read(format!("/proc/{thread}/stat")).ok().and_then(|stat| parse_state(&stat))
}

/// Parses `/proc/ID/stat`: the state is the letter behind the name, which may be any bytes in
/// parentheses.
fn parse_state(stat: &[u8]) -> Option<char> {
    let rest = stat.rsplit(|&byte| byte == b')').next()?;
    let letter = *rest.strip_prefix(b" ")?.first()?;
    (letter.is_ascii_alphabetic() && rest.len() < stat.len()).then_some(char::from(letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex::{self, Scope};
    use crate::testing::LinuxPart;

    use crate::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn threads_have_distinct_ids() {
        let other = std::thread::spawn(id).join().unwrap();
        assert_ne!(id(), other);
    }

    #[test]
    fn a_thread_exists_until_it_has_ended() {
        // The thread id differs from the process id.
        let ended = std::thread::spawn(|| {
            assert!(exists(id()) && id() != std::process::id());
            id()
        });
        let ended = ended.join().unwrap();
        while exists(ended) {
            std::thread::yield_now();
        }
        assert!(exists(1), "another user's, maybe");
    }

    #[test]
    fn a_cached_id_is_the_threads_own_and_is_forgotten_on_demand() {
        let ids = || [id(), cached_id(), cached_id()];
        let (mine, theirs) = (ids(), std::thread::spawn(ids).join().unwrap());
        assert!(mine == [mine[0]; 3] && theirs == [theirs[0]; 3] && mine != theirs);
        ID.set(7);
        assert_eq!(cached_id(), 7);
        forget_cached_id();
        assert_eq!(cached_id(), id());
    }

    #[test]
    fn a_thread_unknown_to_std_runs_its_closure_under_its_name() {
        let (send, receive) = std::sync::mpsc::channel();
        let body = move || send.send((id(), name_of(id()))).unwrap();
        start(c"seventeen letters", body).unwrap();
        let (theirs, name) = receive.recv().unwrap();
        assert_ne!(theirs, id());
        assert_eq!(name.as_deref(), Some("seventeen lette"));
        assert!(receive.recv().is_err(), "its closure is dropped");
    }

    #[test]
    fn the_syscall_file_is_understood() {
        assert_eq!(parse_syscall("202 0x7f 0x0 0x7ffd 0x7f12\n"), Some(202));
        assert_eq!(parse_syscall("-1 0x7ffd 0x7f12\n"), None);
        assert_eq!(parse_syscall("running\n"), None);
        assert_eq!(parse_syscall(""), None);
    }

    #[test]
    fn an_endless_wait_is_distinguished_from_other_waits() {
        let futex = |operation: &str, timeout: &str| {
            says_endless_wait(&format!("{FUTEX} 0x7f10 {operation} 0x2 {timeout} 0x0 0x0 0x7 0x8"))
        };
        assert!(futex("0x80", "0x0") && futex("0x189", "0x0"));
        assert!(!futex("0x80", "0x7ffd") && !futex("0x189", "0x7ffd"), "with a timeout");
        assert!(!futex("0x0", "0x0") && !futex("0x109", "0x0"), "another process may wake it");
        assert!(!futex("0x81", "0x0"), "it wakes other threads");
        assert!(!says_endless_wait("1 0x1 0x80 0x2 0x0 0x0 0x0 0x7 0x8\n"), "another call");
        assert!(!says_endless_wait("running\n") && !says_endless_wait(""));
        assert!(!says_endless_wait(&format!("{FUTEX} 0x7f10 0x80 0x2")), "cut short");
        assert_eq!(parse_futex(&format!("{FUTEX} 0x7f10 0x80 0x2")), Some(0x7f10));
        assert_eq!(parse_futex("1 0x7f10 0x80 0x2"), None, "another call");
    }

    #[test]
    fn a_thread_is_found_by_its_name() {
        let named = std::thread::Builder::new().name("seventeen letters".into());
        let (mine, theirs) = (id(), named.spawn(|| (id(), name_of(id()))).unwrap());
        let (id, name) = theirs.join().unwrap();
        assert_ne!(id, mine);
        assert_eq!(name.as_deref(), Some("seventeen lette"));
        assert!(all().unwrap().contains(&mine) && name_of(u32::MAX).is_none());
        assert!(count_of(std::process::id()).is_some_and(|count| count >= 1));
        assert_eq!(count_of(u32::MAX), None);
    }

    /// Threads that end while they are listed hide no threads that started later.
    #[test]
    fn all_threads_are_found_while_threads_end() {
        for _ in 0..500 {
            let ending: Vec<_> = (0..4).map(|_| std::thread::spawn(|| ())).collect();
            let later = std::thread::spawn(|| (0..4).all(|_| all().unwrap().contains(&id())));
            assert!(later.join().unwrap());
            ending.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }

    #[test]
    fn a_name_of_any_bytes_hides_no_state() {
        assert!(says_runnable(b"7 (x) S \xff) R 1 2\n"));
        assert!(!says_runnable(b"7 () R \xff) S 1 2\n"));
        assert!(!says_runnable(b""));
        assert_eq!(parse_state(b"7 (x) S \xff) D 1 2\n"), Some('D'));
        assert!(
            [&b"7 x S"[..], b"7 (x)", b"7 (x) ", b" R"].iter().all(|it| parse_state(it).is_none())
        );
        assert_eq!((state(id()), state(u32::MAX)), (Some('R'), None));
    }

    #[test]
    fn a_call_that_blocks_has_its_name() {
        assert_eq!(syscall_name(FUTEX), Some("futex"));
        assert_eq!(syscall_name(libc::SYS_clock_nanosleep), Some("clock_nanosleep"));
        assert_eq!(syscall_name(-1), None);
    }

    /// Calls `is_seen` with the id of a thread that is about to block in a futex, until it returns
    /// true.
    fn until_blocked_in_a_futex(is_seen: impl Fn(u32) -> bool) {
        let (thread, word) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            s.spawn(|| {
                thread.store(id(), Relaxed);
                while word.load(Relaxed) == 0 {
                    let _ = futex::wait(&word, 0, None, Scope::Private);
                }
            });
            while thread.load(Relaxed) == 0 || !is_seen(thread.load(Relaxed)) {
                std::thread::yield_now();
            }
            word.store(1, Relaxed);
            futex::wake(&word, 1, Scope::Private);
        });
    }

    #[test]
    fn a_thread_blocked_in_a_futex_is_seen() {
        if LinuxPart::Calls.is_lacking() {
            return;
        }
        if File::open("/proc/self/syscall").is_ok() {
            until_blocked_in_a_futex(|id| blocked_syscall(id) == Some(libc::SYS_futex));
            until_blocked_in_a_futex(waits_for_another);
        } else {
            println!("skipped: this kernel does not offer /proc/self/task/*/syscall");
        }
        assert_eq!(blocked_syscall(u32::MAX), None, "no such thread");
        assert!(!waits_for_another(id()) && !waits_for_another(u32::MAX));
    }

    #[test]
    fn a_running_thread_is_runnable_and_a_waiting_thread_is_not() {
        assert!(is_runnable(id()));
        assert!(!is_runnable(u32::MAX), "no such thread");
        until_blocked_in_a_futex(|id| !is_runnable(id));
    }

    #[test]
    fn timer_slack_is_accepted() {
        set_timer_slack_ns(1).unwrap();
    }
}
