//! The kernel's queue of changes of descriptors, with two interchangeable implementations.
//!
//! A [`Selector`] watches descriptors and reports each of their changes once: it is
//! *edge-triggered*. The receiver of a change uses the descriptor until a call on it returns
//! `EAGAIN`, and only then waits for the next change. The system calls on the descriptor itself are
//! made by its user, so the kernel never holds a buffer beyond a call.
//!
//! Files are always ready, and calls on them wait all the same. A ring lets the kernel
//! [make such calls](Selector::start), with buffers of their callers.
//!
//! [`choose`] finds out once per program which kind the system grants; [`open`] creates one
//! selector per thread.

mod doorbell;
mod epoll;
mod file_call;
#[cfg(test)]
mod file_call_tests;
mod refused;
mod ring;
mod single;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::ops::{BitAnd, BitOr, Not};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::Duration;

pub use epoll::{Epoll, milliseconds};
pub use file_call::{FileCall, FileOperation};
pub use refused::Refused;
pub use ring::RingSelector;
pub(crate) use single::timespec;
pub use single::wait_for;

use doorbell::Doorbell;

/// Directions of a descriptor: a set of [`READ`](Self::READ) and [`WRITE`](Self::WRITE).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Interest(u8);

impl Interest {
    /// Neither direction.
    pub const NONE: Self = Self(0);
    /// Data, connections, or the end of either.
    pub const READ: Self = Self(1);
    /// Room to write, or an established connection.
    pub const WRITE: Self = Self(2);
    /// Both directions.
    pub const BOTH: Self = Self(3);

    /// The set as a number for [`from_bits`](Self::from_bits), to be kept in an atomic word.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with this number. Bits outside [`BOTH`](Self::BOTH) are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::BOTH.0)
    }

    /// Returns true if all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if the set is [`NONE`](Self::NONE).
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This set if `condition` holds, otherwise the empty set.
    const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// The mask for poll(2) and epoll, which report `HUP` and `ERR` without being asked.
    const fn asked(self) -> u32 {
        let read = if self.contains(Self::READ) { READABLE | READ_CLOSED } else { 0 };
        let write = if self.contains(Self::WRITE) { WRITABLE } else { 0 };
        read | write
    }
}

impl BitOr for Interest {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Interest {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Interest {
    type Output = Self;
    fn not(self) -> Self {
        Self::from_bits(!self.0)
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["NONE", "READ", "WRITE", "READ | WRITE"][usize::from(self.0)])
    }
}

// The bits of poll(2), which epoll and io_uring use as well.
const READABLE: u32 = libc::EPOLLIN as u32;
const WRITABLE: u32 = libc::EPOLLOUT as u32;
const READ_CLOSED: u32 = libc::EPOLLRDHUP as u32;
const CLOSED: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// A change reported by the kernel. It may include directions that were not asked for and, rarely,
/// a state that is over by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// The token under which the descriptor is [watched](Selector::watch).
    pub token: u64,
    /// Directions in which the next call will not return `EAGAIN`.
    pub ready: Interest,
    /// Directions of `ready` that have hung up or failed. Once the remaining data is used up, calls
    /// return the end or an error instead of `EAGAIN`, and no further change may come. A peer that
    /// has shut down its writing closes `READ` alone.
    pub closed: Interest,
    /// Directions that the kernel has stopped watching by itself: [watch](Selector::watch) them
    /// again.
    pub ended: Interest,
}

impl Readiness {
    fn new(token: u64, mask: u32) -> Self {
        let closed = Interest::READ.when(mask & (READ_CLOSED | CLOSED) != 0)
            | Interest::WRITE.when(mask & CLOSED != 0);
        let ready =
            Interest::READ.when(mask & READABLE != 0) | Interest::WRITE.when(mask & WRITABLE != 0);
        Self { token, ready: ready | closed, closed, ended: Interest::NONE }
    }
}

/// The kernel interface of a [`Selector`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SelectorKind {
    /// Epoll. One system call per poll.
    Epoll,
    /// Poll requests of io_uring. A poll that finds nothing costs two loads.
    Ring {
        /// True: the kernel leaves the reporting to the thread's next poll
        /// (`IORING_SETUP_DEFER_TASKRUN`, from Linux 6.1 on), which costs one system call per poll
        /// that finds a change. False: the kernel interrupts the thread for each change, which
        /// costs more.
        deferred: bool,
    },
}

impl fmt::Display for SelectorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Epoll => "epoll",
            Self::Ring { deferred: true } => "io_uring",
            Self::Ring { deferred: false } => "io_uring without deferred task work",
        })
    }
}

/// The kernel's queue of changes of descriptors, edge-triggered; see the [module](self).
///
/// Callbacks run without a lock held and may use the selector. If a callback panics, the other
/// changes of its batch are lost.
///
/// A forked child must not use its parent's selectors.
///
/// # Panics
///
/// If a selector [bound](Self::is_bound) to one thread is used by another thread.
///
/// # Examples
///
/// ```
/// use daiko_sys::selector::{self, Interest, SelectorKind};
/// use std::io::Write;
/// use std::os::fd::AsFd;
/// use std::os::unix::net::UnixStream;
///
/// let selector = selector::open(SelectorKind::Epoll)?;
/// let (mut here, there) = UnixStream::pair()?;
/// selector.watch(there.as_fd(), 7, Interest::NONE, Interest::READ)?;
/// here.write_all(b"x")?;
///
/// let found = selector.wait(None, &mut |event| {
///     assert_eq!((event.token, event.ready), (7, Interest::READ));
/// })?;
/// assert_eq!(found, 1);
/// assert_eq!(selector.poll(&mut |_| unreachable!())?, 0, "told once");
/// selector.unwatch(Some(there.as_fd()), 7, Interest::READ)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Selector: Send + Sync {
    /// Reports changes of `fd` in the directions `new` under `token` from now on. A direction that
    /// is ready already counts as a change.
    ///
    /// `old` is the set of the last `watch` under this token, without the directions that have
    /// [`ended`](Readiness::ended). Tokens have 62 bits. The descriptor stays open until
    /// [`unwatch`](Self::unwatch).
    ///
    /// A file that is always ready, such as a regular file, is refused by epoll; io_uring reports
    /// it once, as ready and ended.
    ///
    /// # Errors
    ///
    /// The errors of `epoll_ctl`: too many watches, no memory, a descriptor that cannot be waited
    /// for. With io_uring: no memory; the next poll reports all other errors.
    ///
    /// # Panics
    ///
    /// If the token has more than 62 bits.
    fn watch(&self, fd: BorrowedFd<'_>, token: u64, old: Interest, new: Interest)
    -> io::Result<()>;

    /// Stops the reporting of changes. Called before the descriptor is closed, so that the peer
    /// notices the close at once.
    ///
    /// `of` is the watched set. Without a descriptor (it is closed already) a selector
    /// [bound](Self::is_bound) to a thread ends all watches of this token; with epoll the kernel
    /// has done so.
    ///
    /// The next poll may still report an earlier event: another descriptor that gets the token may
    /// see one change too many.
    ///
    /// # Errors
    ///
    /// The errors of `epoll_ctl` or `io_uring_enter`. A descriptor that is not watched is no error.
    fn unwatch(&self, fd: Option<BorrowedFd<'_>>, token: u64, of: Interest) -> io::Result<()>;

    /// Takes changes without waiting, passes them to `each` and returns their number. There may be
    /// more.
    ///
    /// # Errors
    ///
    /// An error of the kernel: changes may have been lost.
    fn poll(&self, each: &mut dyn FnMut(Readiness)) -> io::Result<usize>;

    /// Waits until a change arrives, the doorbell rings or the timeout passes, and then acts like
    /// [`poll`](Self::poll). It may return early, for a signal handler for instance. Without a
    /// timeout it waits without end.
    ///
    /// # Errors
    ///
    /// The errors of [`poll`](Self::poll).
    fn wait(&self, timeout: Option<Duration>, each: &mut dyn FnMut(Readiness))
    -> io::Result<usize>;

    /// Lets the kernel make a call on a file; [`take_ended`](Self::take_ended) returns it once it
    /// has ended. The next poll or wait passes it to the kernel. Returns false, and leaves the call
    /// to its caller, if this kind of selector has no such calls, or there is no memory.
    ///
    /// # Safety
    ///
    /// The call, the descriptor and the memory of the operation stay until `take_ended` has
    /// returned the call, also if the selector fails. Until then no other code uses the call or,
    /// for a read, its memory, or writes the memory of a write.
    unsafe fn start(&self, _: BorrowedFd<'_>, _call: NonNull<FileCall>) -> bool {
        false
    }

    /// Returns one of the [started](Self::start) calls that the last poll or wait found at its end.
    fn take_ended(&self) -> Option<NonNull<FileCall>> {
        None
    }

    /// Ends the current [`wait`](Self::wait), or the next one, even if [`poll`](Self::poll) is
    /// called in between. May be called by any thread, any number of times; one system call.
    fn ring(&self);

    /// Returns true if only the thread that created the selector may watch, unwatch, poll and wait.
    fn is_bound(&self) -> bool;

    /// The kernel interface in use.
    fn kind(&self) -> SelectorKind;
}

/// Result of [`choose`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The kind to [`open`].
    pub kind: SelectorKind,
    /// Reason why the best kind was not chosen.
    pub refused: Option<Refused>,
}

/// Chooses the best kind of selector that the system grants: io_uring with deferred task work;
/// otherwise epoll, with the reason. Other rings are not the next best: with 50 connections they
/// cost more than twice as much as epoll.
///
/// The choice includes a trial, since a filter of system calls may allow io_uring to be set up but
/// not used.
///
/// # Examples
///
/// ```
/// use daiko_sys::selector::{self, SelectorKind};
///
/// let choice = selector::choose();
/// assert_eq!(choice.refused.is_some(), choice.kind == SelectorKind::Epoll);
/// ```
pub fn choose() -> Choice {
    let kind = SelectorKind::Ring { deferred: true };
    match probe(kind) {
        Ok(()) => Choice { kind, refused: None },
        Err(refused) => Choice { kind: SelectorKind::Epoll, refused: Some(refused) },
    }
}

/// Checks that a selector of this kind works here: creates one that has to report a change.
///
/// # Errors
///
/// The reason, as [`Refused`].
pub fn probe(kind: SelectorKind) -> Result<(), Refused> {
    let selector = open(kind)?;
    let used = |error: io::Error| Refused::new(kind, "io_uring_enter", &error);
    let source = Doorbell::new().map_err(|error| Refused::new(kind, "eventfd", &error))?;
    source.ring();
    selector.watch(source.as_fd(), 0, Interest::NONE, Interest::READ).map_err(used)?;
    let mut lasts = false;
    selector.poll(&mut |event| lasts = event.ended.is_empty()).map_err(used)?;
    selector.wait(Some(Duration::ZERO), &mut |_| ()).map_err(used)?;
    selector.unwatch(Some(source.as_fd()), 0, Interest::READ).map_err(used)?;
    if lasts { Ok(()) } else { Err(Refused::silent(kind)) }
}

/// Creates a selector, for the calling thread if the kind is [bound](Selector::is_bound) to one
/// thread.
///
/// # Errors
///
/// The reason, as [`Refused`], such as too many open files.
pub fn open(kind: SelectorKind) -> Result<Box<dyn Selector>, Refused> {
    match kind {
        SelectorKind::Epoll => Ok(Box::new(Epoll::new()?)),
        SelectorKind::Ring { deferred } => Ok(Box::new(RingSelector::new(deferred)?)),
    }
}

/// Checks the width of a token. The other bits belong to the selectors.
fn check(token: u64) {
    assert!(token < 1 << 62, "a token has 62 bits, not {token:#x}");
}

/// The longest timeout that is passed to the kernel, chosen so that the kernel's sums of times stay
/// in range: 136 years.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);
