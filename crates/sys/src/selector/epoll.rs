//! A selector on epoll.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use super::single::timespec;
use super::{Doorbell, Interest, Readiness, Refused, Selector, SelectorKind, check};
use crate::atomic::{AtomicBool, Ordering};
use crate::descriptor::Reserved;
use crate::thread::errno;

/// Token of the doorbell, which no descriptor can have.
const DOORBELL: u64 = u64::MAX;

/// Largest number of changes taken from the kernel by one call.
const BATCH: usize = 128;

type Batch = [MaybeUninit<libc::epoll_event>; BATCH];

/// A [`Selector`] on an epoll instance, for all threads.
pub struct Epoll {
    epoll: Reserved<OwnedFd>,
    doorbell: Doorbell,
    /// Set once the kernel or a filter turns out to lack `epoll_pwait2`. Timeouts are whole
    /// milliseconds then.
    coarse: AtomicBool,
}

impl Epoll {
    /// Creates an epoll instance.
    ///
    /// # Errors
    ///
    /// Too many open files, no memory.
    pub fn new() -> Result<Self, Refused> {
        let refused = |call| move |error| Refused::new(SelectorKind::Epoll, call, &error);
        let epoll = create().map_err(refused("epoll_create1"))?;
        let doorbell = Doorbell::new().map_err(refused("eventfd"))?;
        let this = Self { epoll: Reserved::new(epoll), doorbell, coarse: AtomicBool::new(false) };
        this.control(libc::EPOLL_CTL_ADD, this.doorbell.as_fd(), DOORBELL, Interest::READ)
            .map_err(refused("epoll_ctl"))?;
        Ok(this)
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: BorrowedFd<'_>,
        token: u64,
        of: Interest,
    ) -> io::Result<()> {
        self.change(operation, fd.as_raw_fd(), token, of.asked()).map_err(explained)
    }

    /// Polls as [`poll`](Selector::poll) does, in place of the thread that waits here: a ring is
    /// rung again, for that thread.
    ///
    /// # Errors
    ///
    /// As [`poll`](Selector::poll).
    pub fn poll_elsewhere(&self, each: &mut dyn FnMut(Readiness)) -> io::Result<usize> {
        self.look(PollTimeout::Not, each, || self.doorbell.ring())
    }

    fn change(&self, operation: libc::c_int, fd: RawFd, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events | libc::EPOLLET as u32, u64: token };
        // SAFETY: the event is a live local.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks the kernel for one report, on the file that has the number `fd` now: that one of these
    /// events of poll(2) has come, or is there, or the file has hung up or failed. Takes the place
    /// of an earlier request for this file and number. A file that is closed is forgotten.
    ///
    /// # Errors
    ///
    /// The error of `epoll_ctl`: `EPERM` for files of a type that never waits.
    pub fn watch_once(&self, fd: RawFd, token: u64, events: u32) -> io::Result<()> {
        check(token);
        let events = events | libc::EPOLLONESHOT as u32;
        match self.change(libc::EPOLL_CTL_MOD, fd, token, events) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                self.change(libc::EPOLL_CTL_ADD, fd, token, events)
            }
            result => result,
        }
    }

    /// Asks the kernel for a report each time that one of these events of poll(2) comes, on the
    /// file that has the number `fd` now.
    ///
    /// # Errors
    ///
    /// The error of `epoll_ctl`.
    pub fn watch_each(&self, fd: RawFd, token: u64, events: u32) -> io::Result<()> {
        check(token);
        self.change(libc::EPOLL_CTL_ADD, fd, token, events)
    }

    /// Takes changes from the kernel; none if a signal arrived.
    fn take<'a>(
        &self,
        batch: &'a mut Batch,
        wait: PollTimeout,
    ) -> io::Result<&'a [libc::epoll_event]> {
        let count = match wait {
            PollTimeout::For(timeout) if !self.coarse.load(Ordering::Relaxed) => {
                self.wait_fine(batch, timeout)
            }
            PollTimeout::For(timeout) => self.wait_coarse(batch, milliseconds(timeout)),
            PollTimeout::Not => self.wait_coarse(batch, 0),
        }?;
        // SAFETY: the kernel has initialised `count` events, which fit into the batch.
        Ok(unsafe { std::slice::from_raw_parts(batch.as_ptr().cast(), count) })
    }

    fn wait_coarse(&self, batch: &mut Batch, timeout: libc::c_int) -> io::Result<usize> {
        let events = batch.as_mut_ptr().cast();
        // SAFETY: the batch is live and has room for the given number of events.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events, BATCH as libc::c_int, timeout)
        };
        counted(count.into())
    }

    /// [`wait_coarse`](Self::wait_coarse) with nanoseconds. Falls back to it if the kernel lacks
    /// this call.
    fn wait_fine(&self, batch: &mut Batch, timeout: Option<Duration>) -> io::Result<usize> {
        let (events, mask) = (batch.as_mut_ptr(), ptr::null::<libc::sigset_t>());
        let time = timeout.map(timespec);
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the batch is live and has room for the given number of events; the timeout is
        // null or a live local; no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll,
                events,
                BATCH as libc::c_int,
                time,
                mask,
                0,
            )
        };
        if count == -1 && matches!(errno(), libc::ENOSYS | libc::EPERM) {
            // Relaxed: a thread that does not see the flag yet finds out by itself.
            self.coarse.store(true, Ordering::Relaxed);
            return self.wait_coarse(batch, milliseconds(timeout));
        }
        counted(count)
    }

    /// Calls `each` with the changes, and `rung` if the doorbell is among them.
    fn look(
        &self,
        wait: PollTimeout,
        each: &mut dyn FnMut(Readiness),
        rung: impl FnOnce(),
    ) -> io::Result<usize> {
        let mut batch = [const { MaybeUninit::uninit() }; BATCH];
        let changes = self.take(&mut batch, wait)?;
        let told = changes.iter().filter(|change| change.u64 != DOORBELL);
        let count = told.clone().count();
        if count < changes.len() {
            rung();
        }
        told.for_each(|change| each(Readiness::new(change.u64, change.events)));
        Ok(count)
    }
}

impl Selector for Epoll {
    fn watch(
        &self,
        fd: BorrowedFd<'_>,
        token: u64,
        old: Interest,
        new: Interest,
    ) -> io::Result<()> {
        check(token);
        if new.is_empty() {
            return self.unwatch(Some(fd), token, old);
        }
        let (first, other) = match old.is_empty() {
            true => (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD),
            false => (libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_ADD),
        };
        match self.control(first, fd, token, new) {
            // Watches belong to the open file, which lives on in its duplicates. A number that was
            // closed without `unwatch` and reused for a duplicate is therefore still watched; if no
            // duplicate was left, it is not.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EEXIST | libc::ENOENT)) => {
                self.control(other, fd, token, new)
            }
            result => result,
        }
    }

    fn unwatch(&self, fd: Option<BorrowedFd<'_>>, token: u64, of: Interest) -> io::Result<()> {
        let Some(fd) = fd else { return Ok(()) };
        match self.control(libc::EPOLL_CTL_DEL, fd, token, of) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    fn poll(&self, each: &mut dyn FnMut(Readiness)) -> io::Result<usize> {
        self.look(PollTimeout::Not, each, || self.doorbell.hear())
    }

    fn wait(
        &self,
        timeout: Option<Duration>,
        each: &mut dyn FnMut(Readiness),
    ) -> io::Result<usize> {
        if self.doorbell.take_heard() {
            return self.poll(each);
        }
        self.look(PollTimeout::For(timeout), each, || ())
    }

    fn ring(&self) {
        self.doorbell.ring();
    }

    fn is_bound(&self) -> bool {
        false
    }

    fn kind(&self) -> SelectorKind {
        SelectorKind::Epoll
    }
}

/// The timeout of a poll.
#[derive(Clone, Copy)]
enum PollTimeout {
    Not,
    For(Option<Duration>),
}

fn create() -> io::Result<OwnedFd> {
    // SAFETY: takes one plain integer.
    match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Returns the timeout of `poll` and `epoll_wait`: in milliseconds, rounded up so that no wait ends
/// early, clamped to the kernel's limit; -1 is without end.
pub fn milliseconds(timeout: Option<Duration>) -> libc::c_int {
    let rounded = |timeout: Duration| timeout.as_nanos().div_ceil(1_000_000);
    timeout.map_or(-1, |timeout| rounded(timeout).try_into().unwrap_or(libc::c_int::MAX))
}

/// The result of a wait. An interruption by a signal handler counts as no change.
fn counted(result: libc::c_long) -> io::Result<usize> {
    match usize::try_from(result) {
        Ok(count) => Ok(count),
        Err(_) if errno() == libc::EINTR => Ok(0),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Adds a remedy to an error if the kernel's own text does not suggest it.
fn explained(error: io::Error) -> io::Error {
    let (kind, text) = match error.raw_os_error() {
        Some(libc::EPERM) => (
            io::ErrorKind::Unsupported,
            "files of this type are always ready: read and write them without waiting",
        ),
        Some(libc::ENOSPC) => (
            io::ErrorKind::QuotaExceeded,
            "too many descriptors watched: raise fs.epoll.max_user_watches",
        ),
        _ => return error,
    };
    io::Error::new(kind, text)
}
