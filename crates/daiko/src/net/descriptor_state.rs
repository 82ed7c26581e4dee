//! State of a descriptor that fibers wait for: its waiters, and the worker that polls it by its
//! agent.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::readiness::{RawReadiness, SeenReadiness};
use daiko_core::wait::Node;
use daiko_sys::Scope;
use daiko_sys::lock::Lock;
use daiko_sys::selector::{self, Interest, Readiness};

use super::io::{Io, Token};
use crate::atomic::{AtomicI32, AtomicU8, Ordering};
use crate::caller;
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::process;
use daiko_rt::runtime::Hold;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object, Waiter};
use daiko_rt::worker::Worker;

/// `EIO`, for an error of another origin than the kernel.
const UNKNOWN: i32 = 5;

/// Calls in a row without a wait, after which other fibers run.
const IN_A_ROW: u8 = 32;

/// Bit of [`DescriptorState::watched`]: the next waiter registers with the agent of its own worker.
const MOVES_ON: u8 = 1 << 7;

/// Lets other fibers of the worker run, if the caller is a fiber that may suspend here.
#[cold]
fn give_way() {
    let caller = caller::unasked();
    if matches!(caller, Waiter::Fiber(_))
        && !caller.may_be_refused()
        && caller::current().is_some_and(Worker::has_other_work)
    {
        daiko_rt::yield_now();
    }
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

impl Way {
    pub(super) fn interest(self) -> Interest {
        match self {
            Way::In => Interest::READ,
            Way::Out => Interest::WRITE,
        }
    }
}

/// Condition under which to make a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Only if the kernel has reported a change since the last call that has left nothing.
    IfChanged,
    /// Always: a thread that is no fiber has asked the kernel.
    Always,
    /// Always, as the time is over: perhaps no agent has read the kernel's reports.
    Last,
}

/// State of a descriptor, as long as it is open.
pub(crate) struct DescriptorState {
    input: RawReadiness<WaiterId>,
    output: RawReadiness<WaiterId>,
    /// Error of the kernel in watching it, for one of the waiters; 0: there is none.
    error: AtomicI32,
    /// Interest registered with the selector of `home`: an [`Interest`], and `MOVES_ON`. Grows
    /// under the lock of `home`.
    watched: AtomicU8,
    /// Calls since the last wait. A lost count does no harm.
    in_a_row: AtomicU8,
    /// The registration: the worker that polls it by its agent.
    home: Lock<Option<Home>>,
}

struct Home {
    /// Keeps the worker's memory.
    _runtime: Hold,
    io: NonNull<Io>,
    token: Token,
}

// SAFETY: `Io` is Sync, and valid as long as its runtime's memory is held.
unsafe impl Send for Home {}

impl Home {
    fn io(&self) -> &Io {
        // SAFETY: the runtime's memory is held.
        unsafe { self.io.as_ref() }
    }
}

impl DescriptorState {
    /// Makes the state of a descriptor that is not registered. All functions are given this
    /// descriptor, which is open until [`close`](Self::close).
    pub(crate) fn new() -> Arc<Self> {
        let scope = if process::is_active() { Scope::Shared } else { Scope::Private };
        Arc::new(DescriptorState {
            input: RawReadiness::new(),
            output: RawReadiness::new(),
            error: AtomicI32::new(0),
            watched: AtomicU8::new(Interest::NONE.bits()),
            in_a_row: AtomicU8::new(0),
            home: Lock::new(scope, None),
        })
    }

    pub(super) fn readiness(&self, way: Way) -> &RawReadiness<WaiterId> {
        match way {
            Way::In => &self.input,
            Way::Out => &self.output,
        }
    }

    /// Makes `call`, which does not block, as soon as there is something for it, and repeats it
    /// while it fails with `WouldBlock`. `drains` tells of a result that nothing is left.
    #[inline]
    pub(crate) fn perform<R>(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        way: Way,
        operation: &str,
        deadline: impl Fn() -> Deadline,
        mut call: impl FnMut() -> io::Result<R>,
        drains: impl Fn(&R) -> bool,
    ) -> io::Result<R> {
        // Before a call: a cancel after the call would lose the bytes that it has taken.
        self.give_way_now_and_then();
        let readiness = self.readiness(way);
        let mut turn = Turn { source: self, way, claimed: false };
        let (mut until, mut look) = (None, Look::IfChanged);
        loop {
            let seen = readiness.seen();
            if (look != Look::IfChanged || !seen.is_drained())
                && let Some(done) = turn.attempt(seen, &mut call)
            {
                if done.as_ref().is_ok_and(&drains) {
                    readiness.drained(seen);
                    // At an end, a further read finds the end behind the taken bytes.
                    turn.claimed &= seen.is_closed();
                }
                return done;
            }
            if look == Look::Last {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let until = *until.get_or_insert_with(&deadline);
            look = self.wait(fd, &mut turn, operation, seen, until)?;
        }
    }

    /// Lets other fibers run after so many calls without a wait.
    #[inline]
    fn give_way_now_and_then(&self) {
        let calls = self.in_a_row.load(Ordering::Relaxed);
        self.in_a_row.store(if calls < IN_A_ROW { calls + 1 } else { 0 }, Ordering::Relaxed);
        if calls == IN_A_ROW {
            give_way();
        }
    }

    /// Waits until the kernel reports something. The kernel is asked only if nothing is known.
    pub(crate) fn await_ready(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        way: Way,
        operation: &str,
        deadline: Deadline,
    ) -> io::Result<()> {
        let is_ready = || selector::wait_for(fd, way.interest(), Some(Duration::ZERO));
        let readiness = self.readiness(way);
        let seen = readiness.seen();
        if !seen.is_drained() {
            if is_ready()? {
                return Ok(());
            }
            readiness.drained(seen);
        }
        // The caller takes nothing, so the next waiter has to look as well.
        let mut turn = Turn { source: self, way, claimed: false };
        match self.wait(fd, &mut turn, operation, seen, deadline)? {
            Look::Last if !is_ready()? => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }

    /// Wakes the next waiter for the same direction: the caller was claimed, and leaves something,
    /// or may do so.
    pub(super) fn pass_on(&self, way: Way) {
        if self.readiness(way).has_waiters() {
            let call = Call::enter();
            let call = call.token();
            wait::wake(call, self.readiness(way).pass_on(ThisThread::of(call)));
        }
    }

    /// Waits for a change since the state that the caller has `seen`, or for the deadline.
    #[cold]
    #[inline(never)]
    fn wait(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        turn: &mut Turn<'_>,
        operation: &str,
        seen: SeenReadiness,
        deadline: Deadline,
    ) -> io::Result<Look> {
        let call = Call::enter();
        let call = call.token();
        let way = turn.way;
        let waiter = caller::waiter(operation);
        if let Waiter::Thread(_) = waiter {
            let is_there = selector::wait_for(fd, way.interest(), deadline.left())?;
            return Ok(if is_there { Look::Always } else { Look::Last });
        }
        let Some(worker) = caller::current() else { unreachable!("a fiber runs on a worker") };
        self.be_watched(call, fd, worker, way)?;
        self.in_a_row.store(0, Ordering::Relaxed);
        let node = Node::new(waiter.id());
        // SAFETY: the node is new, and stays here until it has left or is claimed.
        if unsafe { self.readiness(way).wait(ThisThread::of(call), NonNull::from(&node), seen) } {
            return self.check();
        }
        match waiter.wait(call, &node, &Waiting { source: self, way }, deadline) {
            Ended::Claimed(_) => {
                turn.claimed = true;
                self.check()
            }
            Ended::TimedOut => Ok(Look::Last),
        }
    }

    /// Returns the error of the kernel in watching, for one of the waiters.
    pub(super) fn check(&self) -> io::Result<Look> {
        // The load saves all but the waiter with the error the exchange.
        if self.error.load(Ordering::Relaxed) == 0 {
            return Ok(Look::IfChanged);
        }
        match self.error.swap(0, Ordering::Relaxed) {
            0 => Ok(Look::IfChanged),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Ensures that data to read is reported, to the agent of `here`, the caller's worker. Returns
    /// true if it was not reported before.
    pub(crate) fn arm(
        self: &Arc<Self>,
        call: InCall<'_>,
        fd: BorrowedFd<'_>,
        here: &Worker,
    ) -> io::Result<bool> {
        let was_armed = self.watched().contains(Interest::READ);
        self.be_watched(call, fd, here, Way::In)?;
        Ok(!was_armed)
    }

    /// Ends all reports, until it is armed again.
    pub(crate) fn disarm(&self, fd: BorrowedFd<'_>) {
        self.leave_home(fd, &mut self.home.lock());
    }

    /// Ensures that changes are reported, `here` if they are not reported anywhere so far.
    #[inline]
    pub(super) fn be_watched(
        self: &Arc<Self>,
        call: InCall<'_>,
        fd: BorrowedFd<'_>,
        here: &Worker,
        way: Way,
    ) -> io::Result<()> {
        // Acquire: pairs with the Release in `be_watched_slow`.
        let watched = self.watched.load(Ordering::Acquire);
        let asked = way.interest().bits();
        if watched & (asked | MOVES_ON) == asked {
            Ok(())
        } else {
            self.be_watched_slow(call, fd, here, way)
        }
    }

    #[cold]
    fn be_watched_slow(
        self: &Arc<Self>,
        call: InCall<'_>,
        fd: BorrowedFd<'_>,
        here: &Worker,
        way: Way,
    ) -> io::Result<()> {
        let mut home = self.home.lock();
        let new = self.watched() | way.interest();
        if self.watched.load(Ordering::Relaxed) & MOVES_ON != 0 {
            self.leave_home(fd, &mut home);
        }
        let old = self.watched();
        if old == new {
            return Ok(());
        }
        if let Err(error) = self.watch(call, fd, here, &mut home, old, new) {
            drop(home);
            if old.is_empty() {
                // The waiters for the other direction may have no agent any more.
                self.detach(call, None);
            }
            return Err(error);
        }
        // Release: pairs with the Acquire in `be_watched`.
        // The other direction may have ended since.
        self.watched.fetch_or(new.bits() & !old.bits(), Ordering::Release);
        Ok(())
    }

    /// Registers `new`, `here` if there is no registration yet.
    fn watch(
        self: &Arc<Self>,
        call: InCall<'_>,
        fd: BorrowedFd<'_>,
        here: &Worker,
        home: &mut Option<Home>,
        old: Interest,
        new: Interest,
    ) -> io::Result<()> {
        let at = match home {
            Some(at) => at,
            None => {
                // The selector of the thread that calls, which may be bound to it.
                let io = Io::of(here.on_thread());
                let token = io.register(self, fd)?;
                let _runtime = here.runtime().hold(call);
                home.insert(Home { _runtime, io: NonNull::from(io), token })
            }
        };
        at.io().watch(fd, at.token, old, new).inspect_err(|_| {
            if old.is_empty() {
                at.io().unwatch(fd, at.token, Interest::NONE);
            }
        })
    }

    /// Ends the reports. A change meanwhile is reported at the next registration.
    fn leave_home(&self, fd: BorrowedFd<'_>, home: &mut Option<Home>) {
        if let Some(home) = home.take() {
            home.io().unwatch(fd, home.token, self.watched());
        }
        self.watched.store(Interest::NONE.bits(), Ordering::Relaxed);
    }

    fn watched(&self) -> Interest {
        Interest::from_bits(self.watched.load(Ordering::Relaxed))
    }

    /// Moves the registration to the worker of the next waiter.
    pub(crate) fn moves_on(&self) {
        // Relaxed: seen at the next wait or a later one.
        self.watched.fetch_or(MOVES_ON, Ordering::Relaxed);
    }

    /// Takes a report of the kernel.
    pub(crate) fn reports(
        &self,
        call: InCall<'_>,
        event: Readiness,
        mut wake: impl FnMut(WaiterId),
    ) {
        if !event.ended.is_empty() {
            // Before the wake: a fiber that waits again registers anew.
            self.watched.fetch_and((!event.ended).bits(), Ordering::Release);
        }
        for way in [Way::In, Way::Out] {
            if (event.ready | event.ended).contains(way.interest()) {
                let closed = event.closed.contains(way.interest());
                self.readiness(way).signal(ThisThread::of(call), closed).for_each(&mut wake);
            }
        }
    }

    /// Ends the registration: the worker has ended, or lost its selector. Waiters register anew.
    /// One of them returns the error, if there is one; if the error lasts, the other waiters meet
    /// it.
    pub(crate) fn detach(&self, call: InCall<'_>, error: Option<&io::Error>) {
        if let Some(error) = error {
            self.error.store(error.raw_os_error().unwrap_or(UNKNOWN), Ordering::Relaxed);
        }
        *self.home.lock() = None;
        self.watched.store(Interest::NONE.bits(), Ordering::Release);
        for way in [Way::In, Way::Out] {
            wait::wake_all(call, self.readiness(way).wake_all(ThisThread::of(call)));
        }
    }

    /// Ends all watching by the kernel, before the descriptor is closed.
    pub(crate) fn close(&self, fd: BorrowedFd<'_>) {
        let _call = Call::enter();
        let home = self.home.lock().take();
        if let Some(home) = home {
            home.io().unwatch(fd, home.token, self.watched());
        }
    }
}

/// A waiter's turn to look, which passes to the next waiter however it ends, unless nothing was
/// left.
pub(super) struct Turn<'s> {
    pub(super) source: &'s DescriptorState,
    pub(super) way: Way,
    /// Set if the waiter was claimed by an edge.
    pub(super) claimed: bool,
}

impl Turn<'_> {
    /// Makes `call`, which does not block, after the state was `seen`. Returns `None` if there is
    /// nothing for it.
    #[inline]
    pub(super) fn attempt<R>(
        &mut self,
        seen: SeenReadiness,
        mut call: impl FnMut() -> io::Result<R>,
    ) -> Option<io::Result<R>> {
        loop {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.source.readiness(self.way).drained(seen);
                    self.claimed = false;
                    return None;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Some(done),
            }
        }
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.claimed {
            self.source.pass_on(self.way);
        }
    }
}

/// A wait for one direction of a source.
struct Waiting<'s> {
    source: &'s DescriptorState,
    way: Way,
}

impl Object<WaiterId> for Waiting<'_> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.source.readiness(self.way).leave(ThisThread::of(call), node) }
    }

    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        self.source.pass_on(self.way);
        true
    }
}
