//! Waits for descriptors of the program, by the agents.
//!
//! A context that would block in a call waits for the descriptor at the worker on which it runs.
//! The agent there asks an epoll instance, and so do other agents while that one is busy. The
//! program may close a descriptor at any time, and use its number for another one. So the kernel is
//! asked for one report at a time, by the number, and a report only means that all contexts that
//! wait for this number look again. The protocol is that of `core::descriptors`.

pub(crate) mod own;

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ops::DerefMut;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::time::Duration;

use daiko_core::descriptors::{self, DescriptorWait, FirstWait, Firsts, InstanceIsGone, Table};
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
const HIGHEST: usize = 1 << 20;

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

/// The lists of waits, by the numbers of their descriptors.
struct Lists(Vec<FirstWait<Queue>>);

impl Firsts for Lists {
    type Waiter = Queue;

    fn places(&self) -> &[FirstWait<Queue>] {
        &self.0
    }

    fn place(&mut self, descriptor: usize) -> Option<&mut FirstWait<Queue>> {
        if self.0.len() <= descriptor && descriptor < HIGHEST {
            self.0.resize(descriptor + 1, FirstWait::default());
        }
        self.0.get_mut(descriptor)
    }
}

/// The epoll instance of a worker, opened for the first wait.
struct Instance {
    epoll: OnceLock<Option<Epoll>>,
    table: Lock<Table<Lists>>,
}

impl Instance {
    /// Opens the instance, unless it is open. Returns false if there is none to be had.
    fn open(&self) -> bool {
        // A failure closes a descriptor, where the caller might be cancelled.
        self.epoll.get_or_init(|| cancel::hold(Epoll::new).ok()).is_some()
    }

    fn epoll(&self) -> Option<&Epoll> {
        self.epoll.get()?.as_ref()
    }

    fn look(
        &self,
        each: &mut dyn FnMut(usize),
        look: impl FnOnce(&Epoll, &mut dyn FnMut(Readiness)) -> io::Result<usize>,
    ) -> Result<usize, InstanceIsGone> {
        let Some(epoll) = self.epoll() else { return Ok(0) };
        look(epoll, &mut |event| each(event.token as usize)).map_err(|_| InstanceIsGone)
    }
}

impl descriptors::Instance for Instance {
    type Waiter = Queue;
    type Firsts = Lists;
    type Due = Deadline;

    fn table(&self) -> impl DerefMut<Target = Table<Lists>> {
        self.table.lock()
    }

    fn ask(&self, descriptor: usize, events: u32) -> bool {
        let ask = |epoll: &Epoll| epoll.watch_once(descriptor as RawFd, descriptor as u64, events);
        self.epoll().is_some_and(|epoll| ask(epoll).is_ok())
    }

    fn poll(&self, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone> {
        self.look(each, |epoll, each| epoll.poll(each))
    }

    fn poll_elsewhere(&self, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone> {
        self.look(each, |epoll, each| epoll.poll_elsewhere(each))
    }

    fn sleep(&self, due: Deadline, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone> {
        self.look(each, |epoll, each| epoll.wait(due.left(), each))
    }

    fn ring(&self) {
        self.epoll().inspect(|epoll| epoll.ring());
    }
}

/// The descriptors that contexts wait for at one worker.
struct Descriptors {
    /// The worker that sleeps in the instance. Only its address is used.
    owner: NonNull<Worker>,
    waits: descriptors::Descriptors<Instance>,
}

// SAFETY: of the owner, only the address is used.
unsafe impl Send for Descriptors {}
// SAFETY: as above.
unsafe impl Sync for Descriptors {}

impl Descriptors {
    fn of(worker: &Worker) -> &Self {
        worker.sources.get_or_add(&KEY, || {
            let table = Lock::new(Scope::Private, Table::new(Lists(Vec::new())));
            let instance = Instance { epoll: OnceLock::new(), table };
            Descriptors {
                owner: NonNull::from(worker),
                waits: descriptors::Descriptors::new(instance),
            }
        })
    }

    fn wait(&self, wanted: &[Wanted], deadline: Deadline) -> Awaited {
        if !self.waits.instance().open() {
            return Awaited::Refused;
        }
        let queue = Queue::new(0);
        let none = Wanted { descriptor: -1, events: 0 };
        let waits: [_; MOST] = std::array::from_fn(|at| {
            let Wanted { descriptor, events } = wanted.get(at).copied().unwrap_or(none);
            DescriptorWait::new(descriptor, u32::from(events as u16), &queue)
        });
        // SAFETY: it leaves below, before the context goes.
        let visit = unsafe { self.waits.begin(&waits[..wanted.len()]) };
        let is_refused = Cell::new(false);
        let enter = || {
            // The waiter is in the queue: no report comes too early.
            is_refused.set(!visit.enter());
            !is_refused.get()
        };
        let leave = || visit.leave();
        let (outcome, ()) = parking::wait_then(&queue, Target::NOTHING, deadline, enter, leave);
        match outcome {
            _ if is_refused.get() => Awaited::Refused,
            Outcome::Over => Awaited::Reported,
            Outcome::TimedOut => Awaited::TimedOut,
            Outcome::Interrupted(pending) => Awaited::Interrupted(pending),
        }
    }
}

impl Source for Descriptors {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        let is_owner = NonNull::from(by) == self.owner;
        self.waits.poll(is_owner, |queue| parking::wake_by(InCall::agent(by), queue))
    }

    fn is_awaited(&self) -> bool {
        self.waits.has_waits()
    }

    fn may_be_polled_elsewhere(&self) -> bool {
        true
    }

    fn park(&self, _: bool) -> Bed {
        match self.waits.have_bed() {
            true => Bed::Own { sampled: Duration::ZERO },
            false => Bed::Token,
        }
    }

    fn sleep(&self, by: &Worker, _: &AtomicU32, due: Deadline) {
        self.waits.sleep(due, |queue| parking::wake_by(InCall::agent(by), queue));
    }

    fn ring(&self) -> WakeBy {
        self.waits.ring();
        WakeBy::Done
    }
}
