//! Waits for descriptors of the program, by the agents.
//!
//! A context that would block in a call waits for the descriptor at the worker on which it runs.
//! The agent there asks an epoll instance, and so do other agents while that one is busy. The
//! program may close a descriptor at any time, and use its number for another one. So the kernel is
//! asked for one report at a time, by the number, and a report only means that all contexts that
//! wait for this number look again.

pub(crate) mod own;

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::time::Duration;

use daiko_rt::call::InCall;
use daiko_rt::worker::{Bed, Round, Source, SourceKey, WakeBy, Worker};
use daiko_rt::{Deadline, client};
use daiko_sys::Scope;
use daiko_sys::lock::Lock;
use daiko_sys::selector::{Epoll, Readiness, Selector};

use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::interrupt::Pending;
use crate::parking::{self, Outcome, Queue};
use crate::waits::Target;
use crate::{cancel, errno};

/// The most descriptors of one wait.
pub(crate) const MOST: usize = 8;

/// The highest number of a descriptor to wait for: the table has a word for each number below.
const HIGHEST: RawFd = 1 << 20;

// SAFETY: the engine has this key alone.
const KEY: SourceKey<Descriptors> = unsafe { SourceKey::new(0) };

/// A descriptor, and the events of `poll` to wait for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) descriptor: RawFd,
    pub(crate) events: i16,
}

impl Wanted {
    /// Returns true if the descriptor may have other events for an agent than for the caller: those
    /// of a signalfd are the signals of the thread that looks.
    fn may_be_of_signals(&self) -> bool {
        if !SIGNALS_ARE_READ.load(Ordering::Relaxed) {
            return false;
        }
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: writes the live local, which is read after a success.
        let mode = unsafe {
            (libc::fstat(self.descriptor, stat.as_mut_ptr()) == 0)
                .then(|| stat.assume_init().st_mode)
        };
        !mode.is_some_and(|mode| matches!(mode & libc::S_IFMT, libc::S_IFSOCK | libc::S_IFIFO))
    }
}

/// True once the program has made a signalfd.
static SIGNALS_ARE_READ: AtomicBool = AtomicBool::new(false);

/// Notes that the program makes a signalfd.
pub(crate) fn note_signals_are_read() {
    SIGNALS_ARE_READ.store(true, Ordering::Relaxed);
}

/// # Safety
///
/// As for `signalfd`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn daiko_signalfd(
    descriptor: c_int,
    set: *const libc::sigset_t,
    flags: c_int,
) -> c_int {
    note_signals_are_read();
    // SAFETY: by this function's contract.
    unsafe { libc::signalfd(descriptor, set, flags) }
}

/// The end of a wait.
#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    /// An event may have come: the caller looks again.
    Reported,
    TimedOut,
    /// As of [`Outcome`].
    Interrupted(Pending),
    /// The kernel reports no events of one of them, or there are too many.
    Refused,
}

/// Waits, on a worker, until one of the descriptors may have an event.
pub(crate) fn wait(wanted: &[Wanted], deadline: Deadline) -> Awaited {
    // SAFETY: used in this call, until the context suspends.
    match unsafe { client::current() } {
        Some(worker) if wanted.len() <= MOST && !wanted.iter().any(Wanted::may_be_of_signals) => {
            errno::keep(|| Descriptors::of(worker.on_thread()).wait(wanted, deadline))
        }
        _ => Awaited::Refused,
    }
}

/// A wait for one descriptor, in the frame of the waiter. Changed under the lock of the table.
struct Waiting {
    wanted: Wanted,
    queue: NonNull<Queue>,
    next: Cell<Option<NonNull<Waiting>>>,
}

/// The waits at one worker: for each number of a descriptor, a list.
#[derive(Default)]
struct Table {
    first: Vec<Option<NonNull<Waiting>>>,
}

impl Table {
    fn first(&self, descriptor: RawFd) -> Option<NonNull<Waiting>> {
        *self.first.get(usize::try_from(descriptor).ok()?)?
    }

    /// Returns the waits for a descriptor.
    fn of(&self, descriptor: RawFd) -> impl Iterator<Item = &Waiting> {
        let mut next = self.first(descriptor);
        std::iter::from_fn(move || {
            // SAFETY: a waiter takes its waits out, under the lock, before it goes.
            let waiting = unsafe { next?.as_ref() };
            next = waiting.next.get();
            Some(waiting)
        })
    }

    fn add(&mut self, waiting: &Waiting) {
        let at = waiting.wanted.descriptor as usize;
        if self.first.len() <= at {
            self.first.resize(at + 1, None);
        }
        waiting.next.set(self.first[at].replace(NonNull::from(waiting)));
    }

    fn remove(&mut self, waiting: &Waiting) {
        let this = NonNull::from(waiting);
        let descriptor = waiting.wanted.descriptor;
        if self.first(descriptor) == Some(this) {
            self.first[descriptor as usize] = waiting.next.get();
        } else if let Some(before) =
            self.of(descriptor).find(|other| other.next.get() == Some(this))
        {
            before.next.set(waiting.next.get());
        }
    }

    /// Returns the events that are waited for.
    fn events(&self, descriptor: RawFd) -> u32 {
        self.of(descriptor).fold(0, |all, waiting| all | waiting.wanted.events as u16 as u32)
    }
}

/// The descriptors that contexts wait for at one worker.
struct Descriptors {
    /// The worker that sleeps in the instance.
    owner: NonNull<Worker>,
    /// Opened for the first wait.
    epoll: OnceLock<Option<Epoll>>,
    /// The program has closed the instance: waits are refused.
    is_lost: AtomicBool,
    table: Lock<Table>,
    /// The waits. Written by the worker's own thread and by those that waited there.
    count: AtomicU32,
}

// SAFETY: the waits in the table are used under its lock; of the owner, only the address is.
unsafe impl Send for Descriptors {}
// SAFETY: as above.
unsafe impl Sync for Descriptors {}

impl Descriptors {
    fn of(worker: &Worker) -> &Self {
        worker.sources.get_or_add(&KEY, || Descriptors {
            owner: NonNull::from(worker),
            epoll: OnceLock::new(),
            is_lost: AtomicBool::new(false),
            table: Lock::new(Scope::Private, Table::default()),
            count: AtomicU32::new(0),
        })
    }

    /// Returns true if any context waits here.
    fn has_waits(&self) -> bool {
        // Relaxed: a wait that has just begun is seen at the next look.
        self.count.load(Ordering::Relaxed) != 0
    }

    fn epoll(&self) -> Option<&Epoll> {
        self.epoll
            // A failure closes a descriptor, where the caller might be cancelled.
            .get_or_init(|| cancel::hold(Epoll::new).ok())
            .as_ref()
            .filter(|_| !self.is_lost.load(Ordering::Relaxed))
    }

    fn wait(&self, wanted: &[Wanted], deadline: Deadline) -> Awaited {
        let Some(epoll) = self.epoll() else { return Awaited::Refused };
        let queue = Queue::new(0);
        let none = Wanted { descriptor: -1, events: 0 };
        let waits: [Waiting; MOST] = std::array::from_fn(|at| Waiting {
            wanted: wanted.get(at).copied().unwrap_or(none),
            queue: NonNull::from(&queue),
            next: Cell::new(None),
        });
        let waits = &waits[..wanted.len()];
        self.count.fetch_add(1, Ordering::Relaxed);
        let is_refused = Cell::new(false);
        let watch = || {
            // The waiter is in the queue: no report comes too early.
            is_refused.set(!self.watch(epoll, waits));
            !is_refused.get()
        };
        let leave = || {
            let mut table = self.table.lock();
            waits.iter().for_each(|waiting| table.remove(waiting));
            self.count.fetch_sub(1, Ordering::Relaxed);
        };
        let (outcome, ()) = parking::wait_then(&queue, Target::NOTHING, deadline, watch, leave);
        match outcome {
            _ if is_refused.get() => Awaited::Refused,
            Outcome::Over => Awaited::Reported,
            Outcome::TimedOut => Awaited::TimedOut,
            Outcome::Interrupted(pending) => Awaited::Interrupted(pending),
        }
    }

    /// Enters the waits, and asks the kernel for a report on each descriptor. Returns false if it
    /// refuses one.
    fn watch(&self, epoll: &Epoll, waits: &[Waiting]) -> bool {
        let mut table = self.table.lock();
        waits.iter().all(|waiting| {
            let descriptor = waiting.wanted.descriptor;
            if !(0..HIGHEST).contains(&descriptor) {
                return false;
            }
            table.add(waiting);
            // Another context may wait for it here, too.
            epoll.watch_once(descriptor, descriptor as u64, table.events(descriptor)).is_ok()
        })
    }

    /// Wakes the waiters for the descriptors that `look` finds to have events.
    fn report(
        &self,
        by: &Worker,
        look: impl FnOnce(&Epoll, &mut dyn FnMut(Readiness)) -> std::io::Result<usize>,
    ) -> bool {
        let Some(epoll) = self.epoll() else { return false };
        let found = look(epoll, &mut |event| {
            let table = self.table.lock();
            wake(by, table.of(event.token as RawFd));
        });
        found.unwrap_or_else(|_| self.lose(by)) > 0
    }

    /// Lets all waiters look again: the program has closed the instance.
    #[cold]
    fn lose(&self, by: &Worker) -> usize {
        self.is_lost.store(true, Ordering::Relaxed);
        let table = self.table.lock();
        (0..table.first.len()).for_each(|descriptor| wake(by, table.of(descriptor as RawFd)));
        1
    }
}

/// Wakes the waiters of these waits.
fn wake<'w>(by: &Worker, waits: impl Iterator<Item = &'w Waiting>) {
    for waiting in waits {
        // SAFETY: the queue lies in the waiter's frame, as the wait does.
        parking::wake_by(InCall::agent(by), unsafe { waiting.queue.as_ref() });
    }
}

impl Source for Descriptors {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        if !self.has_waits() {
            return false;
        }
        let is_owner = NonNull::from(by) == self.owner;
        self.report(by, |epoll, each| match is_owner {
            true => epoll.poll(each),
            false => epoll.poll_elsewhere(each),
        })
    }

    fn is_awaited(&self) -> bool {
        self.has_waits()
    }

    fn may_be_polled_elsewhere(&self) -> bool {
        true
    }

    fn park(&self, _: bool) -> Bed {
        match self.has_waits() {
            true => Bed::Own { sampled: Duration::ZERO },
            false => Bed::Token,
        }
    }

    fn sleep(&self, by: &Worker, _: &AtomicU32, due: Deadline) {
        self.report(by, |epoll, each| epoll.wait(due.left(), each));
    }

    fn ring(&self) -> WakeBy {
        if let Some(epoll) = self.epoll() {
            epoll.ring();
        }
        WakeBy::Done
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ptr;

    use super::*;

    /// Random changes, compared with sets.
    #[test]
    fn a_table_has_the_waits_that_were_entered_and_not_taken_out() {
        let queue = Queue::new(0);
        let waits: Vec<_> = (0..40)
            .map(|number| Waiting {
                wanted: Wanted { descriptor: number % 7, events: 1 << (number % 3) },
                queue: NonNull::from(&queue),
                next: Cell::new(None),
            })
            .collect();
        let mut table = Table::default();
        let mut entered = BTreeSet::new();
        let mut random = 1_u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (random >> 33) as usize % waits.len();
            if entered.insert(number) {
                table.add(&waits[number]);
            } else {
                entered.remove(&number);
                table.remove(&waits[number]);
            }
            for descriptor in 0..8 {
                let of = |number: &&usize| waits[**number].wanted.descriptor == descriptor;
                let expected: BTreeSet<_> =
                    entered.iter().filter(of).map(|&number| &raw const waits[number]).collect();
                let found: BTreeSet<_> = table.of(descriptor).map(ptr::from_ref).collect();
                assert_eq!(found, expected);
                let events = entered.iter().filter(of).map(|&number| 1 << (number % 3));
                assert_eq!(table.events(descriptor), events.fold(0, |all, one| all | one));
            }
        }
    }
}
