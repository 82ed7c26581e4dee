//! `perf_event_open(2)`.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

use crate::counters::CounterError;

/// `PERF_TYPE_HARDWARE`.
pub(crate) const HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
pub(crate) const SOFTWARE: u32 = 1;
/// `PERF_TYPE_HW_CACHE`.
pub(crate) const CACHE: u32 = 3;
/// `PERF_TYPE_RAW`: the processor's own encoding.
pub(crate) const RAW: u32 = 4;
/// Each value is followed by the time for which the event was wanted and the time it was counted.
pub(crate) const TIMES: u64 = 0b11;
/// The leader of a group is read with all members: their number, the two times of [`TIMES`], the
/// values.
pub(crate) const WHOLE_GROUP: u64 = 1 << 3;
/// `inherit`: threads that are started from then on are counted as well.
pub(crate) const INHERIT: u64 = 1 << 1;
/// `exclude_kernel`.
pub(crate) const NOT_KERNEL: u64 = 1 << 5;
/// `exclude_hv`: leaves out the hypervisor's own work.
pub(crate) const NOT_BELOW: u64 = 1 << 6;
/// `task`: records each start of a thread or process by the thread, and its end.
pub(crate) const STARTS_AND_ENDS: u64 = 1 << 13;
/// `watermark`: `wakeup` is a number of bytes, not of samples.
pub(crate) const WATERMARK: u64 = 1 << 14;

/// The kernel's `perf_event_attr` up to version 5.
#[repr(C)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup: u32,
    pub(crate) breakpoint: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branches: u64,
    pub(crate) registers: u64,
    pub(crate) stack: u32,
    pub(crate) clock: i32,
    pub(crate) registers_inside: u64,
    pub(crate) auxiliary: u32,
    pub(crate) depth: u16,
    pub(crate) reserved: u16,
}

const _: () = assert!(size_of::<Attributes>() == 112, "PERF_ATTR_SIZE_VER5");

impl Default for Attributes {
    fn default() -> Self {
        // SAFETY: plain numbers, for which zero is a value.
        let zero: Self = unsafe { std::mem::zeroed() };
        Self { size: size_of::<Self>() as u32, ..zero }
    }
}

/// Opens an event that counts the thread with id `thread` on each CPU it runs on: during the same
/// time as the event `leader`, if there is one.
pub(crate) fn open(
    attributes: &Attributes,
    thread: u32,
    leader: Option<&File>,
) -> Result<File, CounterError> {
    const ANY_CPU: i32 = -1;
    const NO_GROUP: i32 = -1;
    const CLOSED_BY_EXEC: u64 = 1 << 3;
    // SAFETY: the attributes are live and state their size; all other arguments are plain integers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread as libc::pid_t,
            ANY_CPU,
            leader.map_or(NO_GROUP, File::as_raw_fd),
            CLOSED_BY_EXEC,
        )
    };
    if fd >= 0 {
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        return Ok(unsafe { File::from_raw_fd(fd as i32) });
    }
    Err(match crate::thread::errno() {
        libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENOSYS => CounterError::Missing,
        libc::EACCES | libc::EPERM => CounterError::NotAllowed,
        libc::ESRCH => CounterError::NoSuchThread,
        errno => CounterError::Refused { errno },
    })
}
