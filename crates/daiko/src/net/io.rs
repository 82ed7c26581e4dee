//! The source of a worker's descriptors: its agent asks the kernel which of them have changed.
//!
//! A descriptor is registered with the selector of the worker on which a fiber waits for it first,
//! and the agent of that worker wakes the waiters. A worker with such descriptors sleeps in its
//! selector instead of on its token; a thread that unparks it rings the selector's doorbell.
//!
//! The selector also takes calls on files, where it is a ring. Their memory belongs to the kernel
//! until their ends, so a worker does not leave its selector before.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use daiko_core::announce::{Announcement, Flag, LastLook};
use daiko_core::place::Follow;
use daiko_sys::lock::{Guard, Lock};
use daiko_sys::selector::{self, FileCall, Interest, Readiness, Selector, SelectorKind};
use daiko_sys::signal;

use super::descriptor_state::DescriptorState;
use crate::atomic::{AtomicU32, Ordering};
use crate::caller;
use crate::sources;
use daiko_rt::Deadline;
use daiko_rt::call::InCall;
use daiko_rt::fiber::ControlBlock;
use daiko_rt::wait;
use daiko_rt::worker::{Bed, Round, Source, SourceKey, WakeBy, Worker};

// SAFETY: the table of numbers has each once.
const KEY: SourceKey<Io> = unsafe { SourceKey::new(sources::IO) };

/// Name of a source in a selector: its place in the table, and the number of earlier uses of the
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Token {
    const PLACES: u32 = 32;

    fn new(place: u32, uses: u32) -> Self {
        // Selectors store 62 bits of it.
        Token(u64::from(uses & ((1 << 29) - 1)) << Self::PLACES | u64::from(place))
    }

    fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The descriptors that fibers of a worker wait for.
pub(crate) struct Io {
    /// The worker that owns this, and polls by its agent.
    worker: NonNull<Worker>,
    /// Opened for the first descriptor.
    selector: OnceLock<Box<dyn Selector>>,
    /// Opened when `selector` has failed, and used from then on. The failed selector stays open, as
    /// other threads may be ringing it.
    substitute: OnceLock<Box<dyn Selector>>,
    sources: Lock<Sources>,
    /// The number of `sources`. Written under their lock.
    count: AtomicU32,
    /// The number of calls on files that the selector has. Written by the owner.
    calls: AtomicU32,
    /// Changes of the selector that other threads ask for, as only its worker may use it.
    jobs: Lock<Vec<SelectorChange>>,
    /// Raised if `jobs` has any job. Written under the lock of `jobs`.
    has_jobs: Flag,
}

/// A change of the selector that another thread asks its worker for.
enum SelectorChange {
    Watch { fd: OwnedFd, token: Token, old: Interest, new: Interest },
    Unwatch { token: Token, of: Interest },
}

/// The registered sources by token.
#[derive(Default)]
struct Sources {
    places: Vec<SourceSlot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct SourceSlot {
    uses: u32,
    registered: Option<Registered>,
}

/// A source that the agent of this worker polls.
pub(super) struct Registered {
    pub(super) source: Arc<DescriptorState>,
    /// Open as long as it is registered.
    pub(super) fd: RawFd,
    /// State of the placement of migratable fibers that wait for it.
    pub(super) follow: Follow,
}

impl Sources {
    fn add(&mut self, registered: Registered) -> Token {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(SourceSlot::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.registered = Some(registered);
        Token::new(at, place.uses)
    }

    fn get(&mut self, token: Token) -> Option<&mut Registered> {
        let place = self.places.get_mut(token.place())?;
        let uses = place.uses;
        place.registered.as_mut().filter(|_| Token::new(token.place() as u32, uses) == token)
    }

    fn remove(&mut self, token: Token) -> Option<Arc<DescriptorState>> {
        self.get(token)?;
        let place = &mut self.places[token.place()];
        place.uses = place.uses.wrapping_add(1);
        self.free.push(token.place() as u32);
        place.registered.take().map(|registered| registered.source)
    }

    fn remove_all(&mut self) -> Vec<Arc<DescriptorState>> {
        let token = |place: u32| Token::new(place, self.places[place as usize].uses);
        let tokens: Vec<_> = (0..self.places.len() as u32).map(token).collect();
        tokens.into_iter().filter_map(|token| self.remove(token)).collect()
    }

    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

// SAFETY: workers are Sync, and this is never used longer than its worker.
unsafe impl Send for Io {}
// SAFETY: as for Send; all other fields are Sync.
unsafe impl Sync for Io {}

impl Io {
    /// Returns the source of `worker`.
    pub(crate) fn of(worker: &Worker) -> &Self {
        worker.sources.get_or_add(&KEY, || Self::new(worker))
    }

    fn new(worker: &Worker) -> Self {
        let scope = worker.runtime().scope();
        Io {
            worker: NonNull::from(worker),
            selector: OnceLock::new(),
            substitute: OnceLock::new(),
            sources: Lock::new(scope, Sources::default()),
            count: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            jobs: Lock::new(scope, Vec::new()),
            has_jobs: Flag::new(),
        }
    }

    /// Returns true if nothing is registered here and there is no job.
    #[inline]
    fn is_idle(&self) -> bool {
        !self.is_used() && !self.has_jobs.is_raised()
    }

    /// Returns true if the selector may have something to report.
    #[inline]
    fn is_used(&self) -> bool {
        // Relaxed: a change that has just come is seen at the next look.
        self.count.load(Ordering::Relaxed) != 0 || self.calls.load(Ordering::Relaxed) != 0
    }

    fn worker(&self) -> &Worker {
        // SAFETY: the worker owns this.
        unsafe { self.worker.as_ref() }
    }

    fn opened(&self) -> Option<&dyn Selector> {
        self.substitute.get().or_else(|| self.selector.get()).map(AsRef::as_ref)
    }

    fn change<R>(&self, change: impl FnOnce(&mut Sources) -> R) -> R {
        let mut sources = self.sources.lock();
        let result = change(&mut sources);
        self.count.store(sources.len() as u32, Ordering::Relaxed);
        result
    }

    fn take_jobs(&self) -> Vec<SelectorChange> {
        let mut jobs = self.jobs.lock();
        self.has_jobs.lower();
        std::mem::take(&mut *jobs)
    }

    /// Makes all waiters look again, or return the error, as no agent polls for them any more.
    /// Returns the number of sources.
    fn give_up(&self, why: Option<&io::Error>) -> usize {
        let all = self.change(Sources::remove_all);
        all.iter().for_each(|source| source.detach(InCall::agent(self.worker()), why));
        all.len()
    }

    /// Registers `source`; the selector knows it by the returned token. Only for the owner. The
    /// descriptor stays open until [`unwatch`](Self::unwatch).
    pub(crate) fn register(
        &self,
        source: &Arc<DescriptorState>,
        fd: BorrowedFd<'_>,
    ) -> io::Result<Token> {
        self.selector()?;
        let (source, fd) = (source.clone(), fd.as_raw_fd());
        let registered = Registered { source, fd, follow: Follow::new() };
        Ok(self.change(|sources| sources.add(registered)))
    }

    /// Makes the kernel report changes of the source with this token for all of `new`; so far it
    /// reported them for `old`. Any thread may call it.
    pub(crate) fn watch(
        &self,
        fd: BorrowedFd<'_>,
        token: Token,
        old: Interest,
        new: Interest,
    ) -> io::Result<()> {
        let selector = self.selector()?;
        if self.may_use(selector) {
            return selector.watch(fd, token.0, old, new);
        }
        // The descriptor may be closed, and its number reused, before the worker reads the job.
        let fd = fd.try_clone_to_owned()?;
        self.send_job(SelectorChange::Watch { fd, token, old, new });
        Ok(())
    }

    /// Ends the reports. The descriptor may be closed afterwards.
    pub(crate) fn unwatch(&self, fd: BorrowedFd<'_>, token: Token, of: Interest) {
        if self.change(|sources| sources.remove(token)).is_none() {
            return;
        }
        let Some(selector) = self.opened() else { return };
        if self.may_use(selector) {
            // A descriptor that the selector does not know needs no work.
            let _ = selector.unwatch(Some(fd), token.0, of);
        } else {
            self.send_job(SelectorChange::Unwatch { token, of });
        }
    }

    /// Lets the kernel make a call on a file, whose waiter is a fiber, and wakes the fiber at its
    /// end. Returns false if the kernel takes no such calls. Only for the owner.
    ///
    /// # Safety
    ///
    /// As for [`Selector::start`]: until the fiber is woken.
    pub(crate) unsafe fn start(&self, fd: BorrowedFd<'_>, call: NonNull<FileCall>) -> bool {
        // SAFETY: by this function's contract. The selector is not left before the call's end.
        let started = self.selector().is_ok_and(|selector| unsafe { selector.start(fd, call) });
        if started {
            self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        started
    }

    /// Wakes the callers of calls that have ended.
    fn wake_callers(&self, selector: &dyn Selector) {
        while let Some(call) = selector.take_ended() {
            self.calls.store(self.calls.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            // SAFETY: it stays until its fiber is woken, which waits, so that its block is in use.
            let fiber = unsafe { call.as_ref().waiter().cast::<ControlBlock>().as_ref() };
            fiber.wake(InCall::agent(self.worker()), Some(self.worker()));
        }
    }

    /// Waits for the calls on files that the kernel has, whose memory it uses.
    fn await_calls(&self) {
        let Some(selector) = self.opened() else { return };
        while self.calls.load(Ordering::Relaxed) > 0 {
            match selector.wait(None, &mut |_| ()) {
                Err(error) if error.kind() != io::ErrorKind::OutOfMemory => {
                    never_told(&error);
                }
                _ => self.wake_callers(selector),
            }
        }
    }

    fn selector(&self) -> io::Result<&dyn Selector> {
        if let Some(selector) = self.opened() {
            return Ok(selector);
        }
        let selector = self.open_selector()?;
        Ok(self.selector.get_or_init(|| selector).as_ref())
    }

    fn open_selector(&self) -> io::Result<Box<dyn Selector>> {
        let runtime = self.worker().runtime();
        let opened = match runtime.options.selector {
            Some(kind) => selector::open(kind),
            // The kernel may refuse this thread an access that it granted to another thread.
            None => selector::open(*runtime.selector.get_or_init(|| selector::choose().kind))
                .or_else(|_| selector::open(selector::SelectorKind::Epoll)),
        };
        opened.map_err(io::Error::from)
    }

    fn may_use(&self, selector: &dyn Selector) -> bool {
        !selector.is_bound()
            || caller::current().is_some_and(|worker| std::ptr::eq(worker, self.worker()))
    }

    fn send_job(&self, job: SelectorChange) {
        let mut jobs = self.jobs.lock();
        jobs.push(job);
        self.has_jobs.raise();
        drop(jobs);
        self.worker().unpark_for(&Announcement::of_changes());
    }

    fn run_jobs(&self) {
        if !self.has_jobs.is_raised() {
            return;
        }
        let Some(selector) = self.opened() else { return };
        for job in self.take_jobs() {
            match job {
                SelectorChange::Unwatch { token, of } => _ = selector.unwatch(None, token.0, of),
                SelectorChange::Watch { fd, token, old, new } => {
                    // `None`: it has been closed since.
                    let registered = self.sources.lock().get(token).map(|at| at.source.clone());
                    if let Some(source) = registered
                        && let Err(error) = selector.watch(fd.as_fd(), token.0, old, new)
                    {
                        self.change(|sources| sources.remove(token));
                        source.detach(InCall::agent(self.worker()), Some(&error));
                    }
                }
            }
        }
    }

    fn report(
        &self,
        look: impl FnOnce(&dyn Selector, &mut dyn FnMut(Readiness)) -> io::Result<usize>,
    ) -> bool {
        let Some(selector) = self.opened() else { return false };
        let follows = self.worker().runtime().steering.is_followed();
        // The lock is taken with the first event, so it is not held during a sleep.
        let mut sources: Option<Guard<'_, Sources>> = None;
        let found = look(selector, &mut |event| {
            let sources = sources.get_or_insert_with(|| self.sources.lock());
            if let Some(registered) = sources.get(Token(event.token)) {
                self.reports(registered, event, follows);
            }
        });
        drop(sources);
        if self.calls.load(Ordering::Relaxed) > 0 {
            self.wake_callers(selector);
        }
        found.unwrap_or_else(|error| self.lose_selector(selector, &error)) > 0
    }

    fn reports(&self, registered: &mut Registered, event: Readiness, follows: bool) {
        if follows {
            registered.reports_to_followers(self.worker(), event);
        } else {
            let call = InCall::agent(self.worker());
            registered.source.reports(call, event, |waiter| wait::wake(call, Some(waiter)));
        }
    }

    /// Replaces a selector that the kernel has refused, as by a new filter of system calls. Waiters
    /// register anew, with epoll after a ring; otherwise they return the error. Returns the number
    /// of sources.
    #[cold]
    fn lose_selector(&self, lost: &dyn Selector, error: &io::Error) -> usize {
        self.await_calls();
        let has_other = lost.kind() != SelectorKind::Epoll
            && selector::open(SelectorKind::Epoll)
                .is_ok_and(|epoll| self.substitute.set(epoll).is_ok());
        self.give_up((!has_other).then_some(error))
    }
}

impl Source for Io {
    /// Wakes the fibers that wait for descriptors with changes.
    fn poll(&self, _: &Worker, _: Round) -> bool {
        if self.is_idle() {
            return false;
        }
        self.run_jobs();
        self.report(|selector, each| selector.poll(each))
    }

    /// Returns true if another thread has a job for the selector.
    fn is_pending(&self, _: &Worker, look: &LastLook) -> bool {
        self.has_jobs.is_raised_at(look)
    }

    fn park(&self, _: bool) -> Bed {
        if self.is_used() { Bed::Own { sampled: Duration::ZERO } } else { Bed::Token }
    }

    /// Sleeps until a descriptor changes, the doorbell is rung, a signal comes, or it is due.
    fn sleep(&self, _: &Worker, _: &AtomicU32, due: Deadline) {
        self.report(|selector, each| selector.wait(due.left(), each));
    }

    fn ring(&self) -> WakeBy {
        if let Some(selector) = self.opened() {
            selector.ring();
        }
        WakeBy::Done
    }

    /// Gives all descriptors up, as the worker ends.
    fn leave(&self) {
        self.await_calls();
        self.give_up(None);
    }
}

/// Ends a program that has forbidden `io_uring_enter` while the kernel had calls on files: their
/// fibers can neither be told of the ends nor give up memory that the kernel may be writing.
#[cold]
fn never_told(error: &io::Error) -> ! {
    let error = error.to_string();
    signal::write_stderr(&[
        b"daiko: io_uring_enter failed while the kernel had calls on files (",
        error.as_bytes(),
        b"): install filters of system calls before files are used, or choose Selector::Epoll\n",
    ]);
    signal::abort()
}
