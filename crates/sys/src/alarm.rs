//! A timed wake of a sleeping thread, set by a thread that need not wake it now.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::descriptor::{Reserved, check};
use crate::selector::{self, Interest, timespec};

/// A timer that one thread sleeps on, and that any thread of the process sets.
///
/// To set it costs less than to wake a thread: no other CPU takes part. See `timerfd_create(2)`.
///
/// # Examples
///
/// ```
/// use daiko_sys::alarm::Alarm;
/// use daiko_sys::clock::monotonic_ns;
///
/// let alarm = Alarm::new()?;
/// alarm.ring(monotonic_ns() + 1_000_000);
/// assert!(alarm.wait(None));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Alarm(Reserved<OwnedFd>);

impl Alarm {
    /// Creates an alarm that is not set.
    ///
    /// # Errors
    ///
    /// If there is no descriptor left, or a call is denied.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the call takes plain integers.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let alarm = Self(Reserved::new(fd));
        alarm.set(u64::MAX).map(|()| alarm)
    }

    /// Sets the alarm to ring at `due_ns`, a time of [`monotonic_ns`], in place of an earlier
    /// setting.
    pub fn ring(&self, due_ns: u64) {
        let set = self.set(due_ns);
        debug_assert!(set.is_ok(), "{set:?}: a valid time was set before");
    }

    fn set(&self, due_ns: u64) -> io::Result<()> {
        let never = Duration::ZERO;
        let setting = libc::itimerspec {
            it_interval: timespec(never),
            // A time of zero would take the setting back.
            it_value: timespec(Duration::from_nanos(due_ns.max(1))),
        };
        let (fd, flags) = (self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
        // SAFETY: the setting is a live local, and the old one is not asked for.
        let set = unsafe { libc::timerfd_settime(fd, flags, &setting, ptr::null_mut()) };
        check(set).map(drop)
    }

    /// Sleeps until the alarm rings, or until `due_ns`, a time of [`monotonic_ns`]; false if it has
    /// not rung. An alarm that has rung before ends one wait.
    pub fn wait(&self, due_ns: Option<u64>) -> bool {
        while !self.has_rung() {
            let left = due_ns.map(|due_ns| due_ns.saturating_sub(monotonic_ns()));
            let timeout = left.map(Duration::from_nanos);
            let wait = || selector::wait_for(self.0.as_fd(), Interest::READ, timeout);
            // An error is a lack of memory for a moment.
            if left == Some(0) || wait().is_err() {
                return false;
            }
        }
        true
    }

    /// Takes the ring of the alarm back; false if it has not rung.
    fn has_rung(&self) -> bool {
        let mut count = 0_u64;
        // SAFETY: the kernel writes eight bytes to a live local of that size.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
        read == 8
    }
}

#[cfg(test)]
mod tests {
    use crate::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use super::*;

    #[test]
    fn a_ring_ends_one_wait_before_or_after_it_begins() {
        let alarm = Alarm::new().unwrap();
        alarm.ring(0);
        assert!(alarm.wait(None));
        assert!(!alarm.has_rung());
        let ended = AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                assert!(alarm.wait(None));
                ended.store(true, Relaxed);
            });
            alarm.ring(u64::MAX);
            assert!(!ended.load(Relaxed));
            alarm.ring(0);
        });
        assert!(ended.load(Relaxed));
    }

    #[test]
    fn a_wait_ends_when_it_is_due() {
        let alarm = Alarm::new().unwrap();
        alarm.ring(u64::MAX);
        let due = monotonic_ns() + 1_000_000;
        assert!(!alarm.wait(Some(due)));
        assert!(monotonic_ns() >= due);
        assert!(!alarm.wait(Some(0)));
    }
}
