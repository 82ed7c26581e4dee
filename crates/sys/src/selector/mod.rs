//! The kernel's queue of changes of descriptors, in two ways that answer alike.
//!
//! A [`Selector`] is told which descriptors to watch and reports their changes, each once: it is *edge-triggered*. Whoever
//! learns of a change uses the descriptor until that says `EAGAIN`, and only then waits for the next one. The system calls
//! on the descriptor itself are its user's, so that no buffer is ever the kernel's beyond a call.
//!
//! [`choose`] finds out once per program what the system grants, [`open`] makes one selector per thread.

mod doorbell;
mod epoll;
mod refused;
mod ring;
mod single;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::ops::{BitAnd, BitOr, Not};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

pub use epoll::Epoll;
pub use refused::Refused;
pub use ring::Ring;
pub use single::wait_for;

use doorbell::Doorbell;

/// Directions of a descriptor: a set of [`READ`](Self::READ) and [`WRITE`](Self::WRITE).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Interest(u8);

impl Interest {
    /// Neither.
    pub const NONE: Self = Self(0);
    /// Data, connections, or the end of either.
    pub const READ: Self = Self(1);
    /// Room to write, or a connection that is made.
    pub const WRITE: Self = Self(2);
    /// Both.
    pub const BOTH: Self = Self(3);

    /// As a number that [`from_bits`](Self::from_bits) knows, to be kept in an atomic word.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with this number; what is not in [`BOTH`](Self::BOTH) is left out.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::BOTH.0)
    }

    /// Whether all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it is [`NONE`](Self::NONE).
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This set if `condition` holds, else the empty one.
    const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// What poll(2) and epoll are asked for. They tell of `HUP` and `ERR` unasked.
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

/// A change that the kernel has reported. It may tell of more than was asked for, and, rarely, of what is over by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What the descriptor is [watched](Selector::watch) as.
    pub token: u64,
    /// Directions in which the next call will not be in vain.
    pub ready: Interest,
    /// Those of them that have hung up or failed: once what is left is used up, calls return the end or an error instead
    /// of `EAGAIN`, and no further change may come. A peer that has shut down its writing closes `READ` alone.
    pub closed: Interest,
    /// Directions in which the kernel watches no more, though nobody asked: [watch](Selector::watch) them again.
    pub ended: Interest,
}

impl Event {
    fn new(token: u64, mask: u32) -> Self {
        let closed = Interest::READ.when(mask & (READ_CLOSED | CLOSED) != 0)
            | Interest::WRITE.when(mask & CLOSED != 0);
        let ready =
            Interest::READ.when(mask & READABLE != 0) | Interest::WRITE.when(mask & WRITABLE != 0);
        Self { token, ready: ready | closed, closed, ended: Interest::NONE }
    }
}

/// How a [`Selector`] asks the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// By epoll. One system call per look.
    Epoll,
    /// By poll requests of io_uring. A look that finds nothing is two loads.
    Ring {
        /// Whether the kernel leaves the reporting to the next look of the thread (`IORING_SETUP_DEFER_TASKRUN`, from
        /// Linux 6.1 on), which costs one system call per look that finds something. Otherwise it interrupts the thread
        /// for each change, which costs more.
        deferred: bool,
    },
}

impl fmt::Display for Kind {
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
/// Callbacks are called without a lock held, and may use the selector. If one panics, changes that were taken from the
/// kernel with its own are lost.
///
/// A forked child must not use its parent's selectors.
///
/// # Panics
///
/// Where only one thread may do something ([`is_bound`](Self::is_bound)), others panic.
///
/// # Examples
///
/// ```
/// use daiko_sys::selector::{self, Interest, Kind};
/// use std::io::Write;
/// use std::os::fd::AsFd;
/// use std::os::unix::net::UnixStream;
///
/// let selector = selector::open(Kind::Epoll)?;
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
    /// Reports changes of `fd` in the directions `new` as `token` from now on; what is ready already is a change.
    ///
    /// `old` is what it is watched for under this token so far: what `watch` was told last, without the directions that
    /// have [`ended`](Event::ended). Tokens have 62 bits. The descriptor stays open until [`unwatch`](Self::unwatch).
    ///
    /// A file that is always ready, such as a regular one, is refused by epoll; io_uring reports it once, as ready and
    /// ended.
    ///
    /// # Errors
    ///
    /// As of `epoll_ctl`: too many watches, no memory, a descriptor that cannot be waited for. Of a ring: no memory; what
    /// else the kernel says, the next look does.
    ///
    /// # Panics
    ///
    /// If the token has more bits.
    fn watch(&self, fd: BorrowedFd<'_>, token: u64, old: Interest, new: Interest)
    -> io::Result<()>;

    /// Reports changes of it no more, but those that came before. Called before the descriptor is closed, so that its
    /// peer learns of that at once.
    ///
    /// `of` is what it was watched for. Without a descriptor, for one that is closed already, a selector
    /// [bound](Self::is_bound) to a thread ends what it watches under this token; the other one had the kernel do that.
    ///
    /// An event that came before may still be told by the next look: where another descriptor gets the token, it may be
    /// told of a change too many.
    ///
    /// # Errors
    ///
    /// As of `epoll_ctl` or `io_uring_enter`; that it is not watched is none.
    fn unwatch(&self, fd: Option<BorrowedFd<'_>>, token: u64, of: Interest) -> io::Result<()>;

    /// Looks without waiting, and calls `each` with what has changed; how many events that were. There may be more.
    ///
    /// # Errors
    ///
    /// Of the kernel: changes may have been lost.
    fn poll(&self, each: &mut dyn FnMut(Event)) -> io::Result<usize>;

    /// Waits until something has changed, the doorbell rings or the timeout has passed, and goes on as
    /// [`poll`](Self::poll). It may also return early, as for a signal handler. Without a timeout it waits for ever.
    ///
    /// # Errors
    ///
    /// As of [`poll`](Self::poll).
    fn wait(&self, timeout: Option<Duration>, each: &mut dyn FnMut(Event)) -> io::Result<usize>;

    /// Ends a [`wait`](Self::wait) that is under way, or the next one; also where [`poll`](Self::poll) is called in
    /// between. From any thread, any number of times; one system call.
    fn ring(&self);

    /// Whether only the thread that made it may watch, unwatch, poll and wait.
    fn is_bound(&self) -> bool;

    /// How it asks.
    fn kind(&self) -> Kind;
}

/// What [`choose`] has found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// What to [`open`].
    pub kind: Kind,
    /// Why it is not the best, if so.
    pub refused: Option<Refused>,
}

/// The best kind of selector that the system grants: io_uring with deferred task work; else epoll, and why. Other rings are not the next best: with 50 connections they cost more than twice as much as epoll.
///
/// It makes one to see whether it works, since a filter of system calls may let io_uring be set up but not used.
///
/// # Examples
///
/// ```
/// use daiko_sys::selector::{self, Kind};
///
/// let choice = selector::choose();
/// assert_eq!(choice.refused.is_some(), choice.kind == Kind::Epoll);
/// ```
pub fn choose() -> Choice {
    let kind = Kind::Ring { deferred: true };
    match probe(kind) {
        Ok(()) => Choice { kind, refused: None },
        Err(refused) => Choice { kind: Kind::Epoll, refused: Some(refused) },
    }
}

/// Whether a selector of this kind works here: one is made, and has to report a change.
///
/// # Errors
///
/// [`Refused`] says why not.
pub fn probe(kind: Kind) -> Result<(), Refused> {
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

/// Makes a selector, for the calling thread if it is of a kind that is [bound](Selector::is_bound) to one.
///
/// # Errors
///
/// [`Refused`] says why not, such as too many open files.
pub fn open(kind: Kind) -> Result<Box<dyn Selector>, Refused> {
    match kind {
        Kind::Epoll => Ok(Box::new(Epoll::new()?)),
        Kind::Ring { deferred } => Ok(Box::new(Ring::new(deferred)?)),
    }
}

/// The other bits are the selectors' own.
fn check(token: u64) {
    assert!(token < 1 << 62, "a token has 62 bits, not {token:#x}");
}

/// The longest timeout that is handed to the kernel, whose sums of times then stay in range: 136 years.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);
