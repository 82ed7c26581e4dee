//! A selector on poll requests of io_uring.
//!
//! A watched direction is one *multishot* poll request. The kernel treats it as edge-triggered and
//! answers with a completion for each change until it is cancelled. Completions lie in memory that
//! is shared with the kernel: a poll loads the end of their queue and a word of flags, and enters
//! the kernel only if one of these asks for it.
//!
//! A call on a file is one request, whose completion has its result.
//!
//! A ring belongs to the thread that created it, with or without deferred task work: requests end
//! with the thread that submitted them and are completed on it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, EnterFlags, IoUring, SubmissionQueue, cqueue, opcode, squeue};

use super::file_call::{EndedCalls, FileCall};
use super::{Doorbell, Interest, LONGEST, Readiness, Refused, Selector, SelectorKind, check};
use crate::atomic::{AtomicBool, Ordering};
use crate::thread::cached_id;

/// Requests submitted together: two directions, or two cancels, and the doorbell's; and calls on
/// files, of which the kernel makes at most as many at a time on its threads.
const REQUESTS: u32 = 64;

/// Completions that the kernel keeps in shared memory. Beyond that, it ends the requests concerned.
const COMPLETIONS: u32 = 4096;

/// Completions taken from shared memory at a time.
const BATCH: usize = 64;

/// A [`Selector`] on an io_uring instance, for the thread that creates it.
///
/// The kernel releases watched descriptors some time after the ring is dropped, so unwatch them
/// before.
pub struct RingSelector {
    ring: IoUring,
    doorbell: Doorbell,
    /// True while no request watches the doorbell: at first, and after the request has ended. A
    /// sleep submits a new request. Accessed by the owner only.
    is_deaf: AtomicBool,
    ended: EndedCalls,
    /// The one thread that may do anything but ring.
    owner: u32,
    deferred: bool,
}

/// User data of a request: the token, and the direction in the two lowest bits; neither direction
/// for internal requests, both for calls on files, whose address is their token.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name(u64);

impl Name {
    const DOORBELL: Self = Self(0);
    const CANCEL: Self = Self(1 << 2);

    fn new(token: u64, way: Interest) -> Self {
        check(token);
        Self(token << 2 | u64::from(way.bits()))
    }

    fn of_call(call: NonNull<FileCall>) -> Self {
        Self::new(call.as_ptr().expose_provenance() as u64, Interest::BOTH)
    }

    fn call(self) -> Option<NonNull<FileCall>> {
        let address = (self.way() == Interest::BOTH).then(|| self.token() as usize)?;
        NonNull::new(ptr::with_exposed_provenance_mut(address))
    }

    fn token(self) -> u64 {
        self.0 >> 2
    }

    fn way(self) -> Interest {
        Interest::from_bits(self.0 as u8)
    }
}

impl RingSelector {
    /// Creates a ring for the calling thread.
    ///
    /// # Errors
    ///
    /// No io_uring, or none with deferred task work although `deferred`; no memory, too many open
    /// files.
    pub fn new(deferred: bool) -> Result<Self, Refused> {
        Self::with_completions(deferred, COMPLETIONS)
    }

    pub(super) fn with_completions(deferred: bool, count: u32) -> Result<Self, Refused> {
        let kind = SelectorKind::Ring { deferred };
        let ring = set_up(deferred, count)
            .map_err(|error| Refused::new(kind, "io_uring_setup", &error))?;
        let parameters = ring.params();
        if !parameters.is_feature_ext_arg() || !parameters.is_feature_nodrop() {
            return Err(Refused::silent(kind));
        }
        let doorbell = Doorbell::new().map_err(|error| Refused::new(kind, "eventfd", &error))?;
        Ok(Self {
            ring,
            doorbell,
            is_deaf: AtomicBool::new(true),
            ended: EndedCalls::default(),
            owner: cached_id(),
            deferred,
        })
    }

    fn check_thread(&self) {
        assert!(cached_id() == self.owner, "a ring is used by the thread that made it");
    }

    fn on_requests<R>(&self, body: impl FnOnce(&mut SubmissionQueue<'_>) -> R) -> R {
        self.check_thread();
        // SAFETY: no other reference exists: only one thread gets here, and the bodies, all of them
        // in this file, do not call this function.
        let mut queue = unsafe { self.ring.submission_shared() };
        body(&mut queue)
    }

    fn on_completions<R>(&self, body: impl FnOnce(&mut CompletionQueue<'_>) -> R) -> R {
        self.check_thread();
        // SAFETY: see `on_requests`.
        let mut queue = unsafe { self.ring.completion_shared() };
        body(&mut queue)
    }

    /// Queues a request for the next [`enter`](Self::enter).
    fn push(&self, request: squeue::Entry) -> io::Result<()> {
        // SAFETY: requests refer to a descriptor or a name, or to the memory of a call, which stays
        // by the contract of `start`.
        let pushed = self.on_requests(|queue| unsafe { queue.push(&request) });
        // Requests stay in the queue only if the kernel lacked memory for them.
        pushed.map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))
    }

    fn push_poll(&self, fd: RawFd, of: Interest, name: Name) -> io::Result<()> {
        let request = opcode::PollAdd::new(Fd(fd), of.asked()).multi(true);
        self.push(request.build().user_data(name.0))
    }

    /// Cancels the request. A request to remove the poll would fail and leave it armed if a change
    /// is about to be reported.
    fn push_cancel(&self, name: Name) -> io::Result<()> {
        self.push(opcode::AsyncCancel::new(name.0).build().user_data(Name::CANCEL.0))
    }

    /// Submits the queued requests and makes the kernel report deferred changes.
    fn enter(&self) -> io::Result<()> {
        self.enter_for(0, EnterFlags::GETEVENTS, &SubmitArgs::new())
    }

    /// Submits the queued requests, then sleeps until there is a completion.
    fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        let time = timeout.map(|timeout| Timespec::from(timeout.min(LONGEST)));
        let none = SubmitArgs::new();
        let until = time.as_ref().map_or(none, |time| none.timespec(time));
        let quiet = match self.ring.params().is_feature_no_iowait() {
            // Without this flag the system counts the sleeper as waiting for a disk, which raises
            // its load figures.
            true => EnterFlags::NO_IOWAIT,
            false => EnterFlags::empty(),
        };
        self.enter_for(1, EnterFlags::GETEVENTS | quiet, &until)
    }

    fn enter_for(
        &self,
        least: u32,
        flags: EnterFlags,
        until: &SubmitArgs<'_, '_>,
    ) -> io::Result<()> {
        let due = self.on_requests(|queue| queue.len()) as u32;
        let flags = (flags | EnterFlags::EXT_ARG).bits();
        // SAFETY: with this flag the argument has this type, and it is live; for the requests, see
        // `push`.
        let entered = unsafe { self.ring.submitter().enter(due, least, flags, Some(until)) };
        match entered {
            Err(error) if !may_be_repeated(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns true if the kernel has deferred reports or has not taken all requests.
    fn has_more(&self) -> bool {
        self.on_requests(|queue| queue.taskrun() || queue.cq_overflow() || !queue.is_empty())
    }

    /// Calls `each` with the reported changes, and `rung` if the doorbell is among them. Returns
    /// the number of changes.
    fn reap(&self, each: &mut dyn FnMut(Readiness), mut rung: impl FnMut()) -> usize {
        let mut found = 0;
        // Bounded by the size of the queue: later completions are left for the next poll.
        for _ in 0..COMPLETIONS as usize / BATCH {
            let mut batch = [const { MaybeUninit::uninit() }; BATCH];
            let batch = self.on_completions(|queue| queue.fill(&mut batch));
            let is_bell = |it: &&cqueue::Entry| Name(it.user_data()) == Name::DOORBELL;
            // The doorbell goes first, so that a panicking callback does not leave it unwatched.
            batch.iter().filter(is_bell).for_each(|completion| self.hear(completion, &mut rung));
            found += batch.iter().filter(|completion| self.tell(completion, each)).count();
            if batch.len() < BATCH {
                break;
            }
        }
        found
    }

    /// Calls `each` if the completion reports a change. Returns true if it does, or is that of a
    /// call on a file.
    fn tell(&self, completion: &cqueue::Entry, each: &mut dyn FnMut(Readiness)) -> bool {
        let name = Name(completion.user_data());
        if let Some(call) = name.call() {
            // SAFETY: by the contract of `start`. The kernel completes a request once.
            unsafe { self.ended.push(call, completion.result()) };
            return true;
        }
        let way = name.way();
        // Internal requests have no direction; a cancelled watch has no watcher any more.
        if way.is_empty() || completion.result() == -libc::ECANCELED {
            return false;
        }
        let ended = way.when(!cqueue::more(completion.flags()));
        let event = match u32::try_from(completion.result()) {
            Ok(mask) => Readiness::new(name.token(), mask),
            // The kernel does not watch the descriptor. The call on it returns the reason, or
            // `EAGAIN` if it is to be watched again.
            Err(_) => Readiness { ready: way, ..Readiness::new(name.token(), 0) },
        };
        each(Readiness { ended, ..event });
        true
    }

    fn hear(&self, completion: &cqueue::Entry, rung: &mut dyn FnMut()) {
        if !cqueue::more(completion.flags()) {
            // Relaxed: accessed by the owner only.
            self.is_deaf.store(true, Ordering::Relaxed);
        }
        rung();
    }

    /// Watches the doorbell from the next [`enter`](Self::enter) on, which also reports earlier
    /// rings.
    fn listen(&self) -> io::Result<()> {
        if self.is_deaf.load(Ordering::Relaxed) {
            let bell = self.doorbell.as_fd().as_raw_fd();
            self.push_poll(bell, Interest::READ, Name::DOORBELL)?;
            self.is_deaf.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Selector for RingSelector {
    // Submitted at once: the descriptor is borrowed for this call only. Requests that the kernel
    // does not take stay in the queue; the next poll submits them or reports the error. Their
    // descriptor may be another file by then, and their token unused.
    fn watch(
        &self,
        fd: BorrowedFd<'_>,
        token: u64,
        old: Interest,
        new: Interest,
    ) -> io::Result<()> {
        for way in ways(old & !new) {
            self.push_cancel(Name::new(token, way))?;
        }
        for way in ways(new & !old) {
            self.push_poll(fd.as_raw_fd(), way, Name::new(token, way))?;
        }
        if old != new {
            let _ = self.enter();
        }
        Ok(())
    }

    // Submitted at once: as long as a request holds the file, closing the descriptor does not close
    // it.
    fn unwatch(&self, _: Option<BorrowedFd<'_>>, token: u64, of: Interest) -> io::Result<()> {
        for way in ways(of) {
            self.push_cancel(Name::new(token, way))?;
        }
        if of.is_empty() { Ok(()) } else { self.enter() }
    }

    fn poll(&self, each: &mut dyn FnMut(Readiness)) -> io::Result<usize> {
        if self.has_more() {
            self.enter()?;
        }
        Ok(self.reap(each, || self.doorbell.hear()))
    }

    fn wait(
        &self,
        timeout: Option<Duration>,
        each: &mut dyn FnMut(Readiness),
    ) -> io::Result<usize> {
        if self.doorbell.take_heard() {
            return self.poll(each);
        }
        if self.on_completions(|queue| queue.len()) == 0 {
            self.listen()?;
            self.sleep(timeout)?;
        }
        Ok(self.reap(each, || ()))
    }

    unsafe fn start(&self, fd: BorrowedFd<'_>, call: NonNull<FileCall>) -> bool {
        // SAFETY: the caller's own.
        let operation = unsafe { call.as_ref() }.operation();
        if !operation.has_valid_offset() {
            return false;
        }
        let request = || operation.request(fd.as_raw_fd()).user_data(Name::of_call(call).0);
        // Passed on with later calls by the next poll. A failed enter leaves the queue full.
        self.push(request()).or_else(|_| self.enter().and_then(|()| self.push(request()))).is_ok()
    }

    fn take_ended(&self) -> Option<NonNull<FileCall>> {
        self.check_thread();
        self.ended.pop()
    }

    fn ring(&self) {
        self.doorbell.ring();
    }

    fn is_bound(&self) -> bool {
        true
    }

    fn kind(&self) -> SelectorKind {
        SelectorKind::Ring { deferred: self.deferred }
    }
}

fn set_up(deferred: bool, completions: u32) -> io::Result<IoUring> {
    let mut plain = IoUring::builder();
    // A child would write to the queues of its parent.
    plain.dontfork().setup_cqsize(completions);
    let requests = REQUESTS.min(completions);
    if deferred {
        let flags = plain.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        return flags.setup_submit_all().build(requests);
    }
    plain.build(requests)
}

fn ways(of: Interest) -> impl Iterator<Item = Interest> {
    [Interest::READ, Interest::WRITE].into_iter().filter(move |way| of.contains(*way))
}

/// Returns true if another attempt may succeed, or if the time has passed and there is nothing to
/// report.
fn may_be_repeated(error: &io::Error) -> bool {
    // Busy: completions are to be taken first, and the caller does so next.
    let codes = [libc::EINTR, libc::ETIME, libc::EBUSY, libc::EAGAIN];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
