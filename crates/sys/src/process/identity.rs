//! Names of processes that are never reused.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use super::{PidFd, ProcessError};

/// The name of a process: plain numbers with the same meaning in all processes of its PID
/// namespace.
///
/// A pid alone is reused sooner or later. Together with the start time of its process it is unique,
/// as pids do not wrap around within one tick. A process that becomes another program (`exec`)
/// keeps both and loses the rest: it has another name from then on.
///
/// # Examples
///
/// ```
/// use daiko_sys::process::{Life, ProcessId};
///
/// let me = ProcessId::own()?;
/// assert!(matches!(me.find(), Life::Alive(_)));
/// let predecessor = ProcessId { start_ticks: me.start_ticks - 1, ..me };
/// assert!(matches!(predecessor.find(), Life::Ended), "this pid was used again, by me");
/// # Ok::<(), daiko_sys::process::ProcessError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// The pid, within its namespace.
    pub pid: u32,
    /// Start time in ticks since the machine's start, usually of 10 ms.
    pub start_ticks: u64,
    /// The PID namespace, as its inode.
    pub pid_namespace: u64,
    /// The time namespace that defines the clock since the machine's start, as its inode; 0 before
    /// Linux 5.6.
    pub time_namespace: u64,
    /// The start of the machine: half of its boot id, 0 if that is unknown.
    pub boot: u64,
    /// The program: a hash of the addresses that the kernel chose at random when it began; 0 if
    /// they are unknown.
    pub image: u64,
}

/// The best available answer to the question if a process lives.
#[derive(Debug)]
#[must_use]
pub enum Life {
    /// The process lived when asked, and may be stopped. The pidfd tells when it has ended.
    Alive(PidFd),
    /// The process has ended, or will run no more instruction (a zombie, reaped or not), or runs
    /// another program.
    Ended,
    /// The process may live.
    Unknown(Doubt),
}

/// Reason why it is unknown if a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// The process is in another PID or time namespace.
    OtherNamespace,
    /// `/proc` does not show the process, because of the mount option `hidepid` for instance.
    Hidden,
    /// This process cannot inspect any process.
    Blind(ProcessError),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherNamespace => f.write_str(
                "the process is in another PID or time namespace: run both in one (docker: --pid)",
            ),
            Self::Hidden => f.write_str(
                "/proc does not show the process: mount it without hidepid, or run as its user",
            ),
            Self::Blind(error) => error.fmt(f),
        }
    }
}

impl ProcessId {
    /// The calling process.
    ///
    /// # Errors
    ///
    /// [`ProcessError::ForeignProc`] if `/proc` is missing or belongs to another PID namespace.
    pub fn own() -> Result<Self, ProcessError> {
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).filter(|_| proc_is_ours());
        Ok(Self {
            pid,
            start_ticks: start_ticks.ok_or(ProcessError::ForeignProc)?,
            pid_namespace: namespace("pid").ok_or(ProcessError::ForeignProc)?,
            time_namespace: namespace("time").unwrap_or(0),
            boot: boot(),
            image: image(pid).unwrap_or(0),
        })
    }

    /// Finds the process, or finds out that it has ended.
    pub fn find(&self) -> Life {
        if self.boot != 0 && boot() != 0 && self.boot != boot() {
            return Life::Ended;
        }
        match self.held() {
            Ok(held) => self.recognise(held),
            Err(life) => life,
        }
    }

    /// Opens the current holder of this pid. Fails with the final answer if there is none.
    fn held(&self) -> Result<PidFd, Life> {
        if namespace("pid") != Some(self.pid_namespace)
            || namespace("time").unwrap_or(0) != self.time_namespace
        {
            return Err(Life::Unknown(Doubt::OtherNamespace));
        }
        if !proc_is_ours() {
            return Err(Life::Unknown(Doubt::Blind(ProcessError::ForeignProc)));
        }
        PidFd::open(self.pid).map_err(|error| match error {
            ProcessError::NoSuchProcess { .. } => Life::Ended,
            error => Life::Unknown(Doubt::Blind(error)),
        })
    }

    /// Compares the start times once the pid is held: if they are equal, no other process can have
    /// had this pid before.
    fn recognise(&self, held: PidFd) -> Life {
        let start = start_ticks(self.pid);
        let is_reused = start.is_some_and(|start| start != self.start_ticks);
        if held.has_ended() || is_reused || self.runs_another_program() {
            return Life::Ended;
        }
        match start {
            Some(_) => Life::Alive(held),
            None => Life::Unknown(Doubt::Hidden),
        }
    }

    /// Returns true if the kernel reveals to the caller which program the holder of this pid runs,
    /// so that [`find`](Self::find) notices another one: mostly that of the same user, or to root.
    pub fn reveals_program(&self) -> bool {
        self.image != 0 && image(self.pid).is_some()
    }

    /// Returns true if the holder of this pid is known to run another program.
    fn runs_another_program(&self) -> bool {
        self.image != 0 && image(self.pid).is_some_and(|image| image != self.image)
    }
}

/// Returns true if `/proc` belongs to this process's PID namespace. It does not in a container made
/// without mounting one.
fn proc_is_ours() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.and_then(|own| own.to_str()?.parse().ok()) == Some(std::process::id())
}

fn namespace(kind: &str) -> Option<u64> {
    Some(fs::metadata(format!("/proc/self/ns/{kind}")).ok()?.ino())
}

fn start_ticks(pid: u32) -> Option<u64> {
    parse_start(&file_of(pid, "stat")?)
}

/// Returns the content of a file of `/proc` about a process.
///
/// The path has a component more than it needs: qemu-user answers for the caller's own process
/// itself, and otherwise than the kernel answers the same question of another process.
fn file_of(pid: u32, name: &str) -> Option<Vec<u8>> {
    fs::read(format!("/proc/./{pid}/{name}")).ok()
}

/// A number for the program that a process runs; `None` if the kernel does not reveal it. The
/// kernel reveals it to processes that may trace this one, while its first thread lives.
///
/// The number is a hash of the auxiliary vector, which has addresses of the stack and of the vDSO.
fn image(pid: u32) -> Option<u64> {
    let told = file_of(pid, "auxv").filter(|told| !told.is_empty())?;
    Some(fnv(&told).max(1))
}

/// FNV-1a, which is stable across programs: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Reads the 22nd field of `/proc/PID/stat`: the twentieth behind the name, which may be any bytes
/// in parentheses.
#[doc(hidden)]
pub fn parse_start(stat: &[u8]) -> Option<u64> {
    let rest = stat.rsplit(|&byte| byte == b')').next().filter(|rest| rest.len() < stat.len())?;
    let mut fields =
        rest.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
    str::from_utf8(fields.nth(19)?).ok()?.parse().ok()
}

/// The boot id, which changes when the machine starts anew; empty if the kernel does not report it.
pub fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The first half of the boot id, which has more than enough random bits; 0 if it is unknown.
fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let digits: String = boot_id().chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{forked, in_fork, reap};
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;

    /// The identity of a child that sleeps until it is killed.
    fn child() -> (libc::pid_t, ProcessId) {
        let child = forked(|| {
            loop {
                std::thread::park();
            }
        });
        let pid = child as u32;
        let start_ticks = start_ticks(pid).unwrap();
        (child, ProcessId { pid, start_ticks, ..ProcessId::own().unwrap() })
    }

    fn kill(pid: libc::pid_t, signal: libc::c_int, state: u8) {
        // SAFETY: takes plain integers; the process is a child of the test that is not reaped yet.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        let letter = || {
            let stat = fs::read(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit(|&byte| byte == b')').next().unwrap()[1]
        };
        while letter() != state {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_lives_stopped_and_not_as_a_zombie() {
        let (child, id) = child();
        kill(child, libc::SIGSTOP, b'T');
        let Life::Alive(held) = id.find() else { panic!("stopped, it lives") };
        kill(child, libc::SIGKILL, b'Z');
        assert!(matches!(id.find(), Life::Ended) && held.has_ended(), "a zombie");
        reap(child);
        assert!(matches!(id.find(), Life::Ended), "reaped");
    }

    #[test]
    fn another_process_of_the_same_pid_is_not_mistaken_for_it() {
        let (child, id) = child();
        for start_ticks in [0, id.start_ticks - 1, id.start_ticks + 1, u64::MAX] {
            assert!(matches!(ProcessId { start_ticks, ..id }.find(), Life::Ended));
        }
        assert!(matches!(ProcessId { pid: 0, ..id }.find(), Life::Ended));
        assert!(matches!(ProcessId { pid: u32::MAX, ..id }.find(), Life::Ended));
        assert!(matches!(id.find(), Life::Alive(_)));
        kill(child, libc::SIGKILL, b'Z');
        reap(child);
    }

    #[test]
    fn processes_of_another_namespace_are_not_known() {
        let id = ProcessId::own().unwrap();
        for other in [
            ProcessId { pid_namespace: id.pid_namespace + 1, ..id },
            ProcessId { time_namespace: id.time_namespace + 1, ..id },
        ] {
            assert!(matches!(other.find(), Life::Unknown(Doubt::OtherNamespace)));
        }
    }

    #[test]
    fn no_process_started_before_the_machine() {
        let id = ProcessId::own().unwrap();
        assert!(matches!(ProcessId { boot: !id.boot, pid_namespace: 0, ..id }.find(), Life::Ended));
        assert!(matches!(ProcessId { boot: 0, ..id }.find(), Life::Alive(_)), "unknown");
    }

    #[test]
    fn a_process_that_becomes_another_program_has_ended() {
        let (told, tell) = std::io::pipe().unwrap();
        let child = forked(|| {
            let mut go = [0];
            (&told).read_exact(&mut go).unwrap();
            let error = std::process::Command::new("sleep").arg("1000").exec();
            panic!("{error}");
        });
        let pid = child as u32;
        let start_ticks = start_ticks(pid).unwrap();
        let id = ProcessId { pid, start_ticks, ..ProcessId::own().unwrap() };
        assert!(matches!(id.find(), Life::Alive(_)), "forked, it runs the same program");
        (&tell).write_all(&[1]).unwrap();
        while !matches!(id.find(), Life::Ended) {
            std::thread::yield_now();
        }
        assert!(!PidFd::open(pid).unwrap().has_ended());
        let unknown = ProcessId { image: 0, ..id };
        assert!(matches!(unknown.find(), Life::Alive(_)), "of which nothing else is known");
        kill(child, libc::SIGKILL, b'Z');
        reap(child);
    }

    /// The process lives as long as one thread does, though its first thread is a zombie.
    #[test]
    fn a_process_outlives_its_first_thread() {
        let child = forked(|| {
            std::thread::spawn(|| {
                loop {
                    std::thread::park();
                }
            });
            // SAFETY: ends this thread; no reference to its frame exists.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
        let pid = child as u32;
        let start_ticks = start_ticks(pid).unwrap();
        let id = ProcessId { pid, start_ticks, ..ProcessId::own().unwrap() };
        kill(child, 0, b'Z');
        assert!(matches!(id.find(), Life::Alive(_)));
        // SAFETY: takes plain integers.
        unsafe { libc::kill(child, libc::SIGKILL) };
        reap(child);
    }

    /// The child is in a PID namespace of its own and still sees its parent's `/proc`.
    #[test]
    fn a_proc_of_another_namespace_is_not_believed() {
        in_fork(|| {
            // SAFETY: `geteuid` and `unshare` take plain integers; this process has one thread.
            let flags = libc::CLONE_NEWPID
                | if unsafe { libc::geteuid() } == 0 { 0 } else { libc::CLONE_NEWUSER };
            // SAFETY: as above.
            if unsafe { libc::unshare(flags) } != 0 {
                println!("skipped: PID namespaces are refused here");
                return;
            }
            in_fork(|| {
                assert_eq!(std::process::id(), 1);
                assert_eq!(ProcessId::own(), Err(ProcessError::ForeignProc));
            });
        });
    }

    #[test]
    fn a_name_of_any_bytes_hides_no_start() {
        let numbers: Vec<String> = (4..=52).map(|field: u32| field.to_string()).collect();
        for name in [&b"x"[..], b"", b"a b) R 1 2 (c", b") (\xff\n", b"("] {
            let stat = [b"7 (", name, b") S ", numbers.join(" ").as_bytes(), b"\n"].concat();
            assert_eq!(parse_start(&stat), Some(22));
        }
        assert_eq!(parse_start(b"7 (x) S 1 2 3\n"), None, "cut short");
        assert_eq!(parse_start(b""), None);
        assert_eq!(parse_start(numbers.join(" ").as_bytes()), None, "no name");
    }
}
