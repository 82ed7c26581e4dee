//! The progress engine: one poller of the process, and the waits of fibers and threads.
//!
//! The README has the protocol.

use std::ffi::c_int;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use daiko::agent::Registration;
use daiko::cancel::shield;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::process;
use daiko_rt::wait::{self, Ended, Wait, Waiter};

use crate::error::MpiError;
use crate::gate::{InProgress, OpGate};
use crate::matching::MatchKey;
use crate::raw;
use crate::table::{CommSlot, Destination, OpEnd, OpNode, RequestTable, Woken};

/// The engine of the process, once MPI is initialised.
pub(crate) static ENGINE: OnceLock<Engine> = OnceLock::new();

/// Returns the engine.
pub(crate) fn engine() -> &'static Engine {
    ENGINE.get().expect("there is a communicator, so MPI is initialised")
}

pub(crate) struct Engine {
    pub(crate) gate: OpGate,
    /// The communicator of all ranks.
    pub(crate) world: u64,
    /// True if one thread at a time may call MPI: the calls are then made under the table's lock.
    pub(crate) is_serialized: bool,
    /// True if each rank of this machine has a CPU.
    pub(crate) has_own_cpu: bool,
    table: Mutex<RequestTable>,
    pub(crate) registration: OnceLock<Registration>,
}

/// The names of a call, for its errors.
#[derive(Clone, Copy)]
pub(crate) struct CallSite {
    pub(crate) operation: &'static str,
    pub(crate) rank: usize,
    pub(crate) peer: Option<usize>,
}

impl CallSite {
    pub(crate) fn check(self, code: c_int) -> Result<(), MpiError> {
        match code {
            0 => Ok(()),
            code => Err(self.error(code)),
        }
    }

    #[cold]
    fn error(self, code: c_int) -> MpiError {
        let CallSite { operation, rank, peer } = self;
        let (class, text) = engine().call(|| raw::explain(code));
        MpiError::Mpi { operation, rank, peer, class, text }
    }

    fn checked(self, end: OpEnd) -> Result<OpEnd, MpiError> {
        self.check(end.status.error).map(|()| end)
    }
}

/// An operation that has begun: the caller may wait, and MPI is not finalised.
pub(crate) struct BegunOp {
    operation: InProgress,
    waiter: Waiter,
}

/// The messages that a receive or a probe wants: those of a communicator and a key.
pub(crate) type Wanted = (CommSlot, MatchKey);

impl Engine {
    pub(crate) fn new(world: u64, is_serialized: bool, has_own_cpu: bool) -> Self {
        let (table, registration) = (Mutex::new(RequestTable::new()), OnceLock::new());
        Engine { gate: OpGate::new(), world, is_serialized, has_own_cpu, table, registration }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, RequestTable> {
        // A panic leaves no change half done: the lock is held by code that does not panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation that does not wait.
    #[inline]
    pub(crate) fn enter(&'static self) -> Result<InProgress, MpiError> {
        if process::is_active() {
            return Err(MpiError::WorkerProcesses);
        }
        self.gate.enter().ok_or(MpiError::Finalized)
    }

    /// Begins an operation that may wait. If a cancel of the caller is due, it is raised.
    ///
    /// # Panics
    ///
    /// If the caller may not wait: a poller, or a fiber inside `no_suspend`.
    #[inline]
    pub(crate) fn begin(&'static self, site: CallSite) -> Result<BegunOp, MpiError> {
        let operation = self.enter()?;
        // SAFETY: used by this call, on its own thread.
        let waiter = unsafe { Waiter::caller(site.operation) };
        Ok(BegunOp { operation, waiter })
    }

    /// Makes a short call of MPI.
    #[inline]
    pub(crate) fn call<R>(&self, call: impl FnOnce() -> R) -> R {
        let _one_at_a_time = self.is_serialized.then(|| self.table());
        call()
    }

    /// Posts a request, and looks once whether it has ended already.
    ///
    /// # Safety
    ///
    /// The request that `post` leaves in its argument is new, and its buffers stay until it has
    /// ended.
    #[inline]
    unsafe fn post(
        &self,
        site: CallSite,
        post: impl FnOnce(&mut u64) -> c_int,
    ) -> Result<Posted, MpiError> {
        let (mut request, mut ended) = (0, 0);
        let error = self.call(|| match post(&mut request) {
            // SAFETY: the request was posted just now; the call writes to a live local.
            0 => unsafe { raw::daiko_mpi_test(request, &mut ended, std::ptr::null_mut()) },
            error => error,
        });
        site.check(error)?;
        Ok(if ended == 0 { Posted::Pending(request) } else { Posted::Ended })
    }

    /// Makes the poller active, as there is something to look for.
    fn activate(&self, table: &mut RequestTable) {
        if !table.is_active {
            table.is_active = true;
            // Under the lock, so that the poller does not make itself inactive afterwards.
            self.registration.get().expect("set before MPI is used").set_active(true);
        }
    }

    /// The poller's look: wakes the waiters of operations that have ended.
    pub(crate) fn poll(&self) -> usize {
        let Some(mut table) = self.try_table() else { return 0 };
        let woken = table.look();
        if table.is_idle() {
            table.is_active = false;
            self.registration.get().expect("set before MPI is used").set_active(false);
        }
        drop(table);
        wake(&woken, None);
        woken.ended
    }

    fn try_table(&self) -> Option<MutexGuard<'_, RequestTable>> {
        match self.table.try_lock() {
            Ok(table) => Some(table),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A look by the waiter of `node`, in place of the poller's. Returns true if it has ended that
    /// wait, so that no wake comes.
    fn look_for(&self, node: &OpNode, waiter: &Waiter) -> bool {
        let Some(mut table) = self.try_table() else { return false };
        if !table.is_awaited(node) {
            // Another thread's look has ended it: its wake is on its way.
            return false;
        }
        let woken = table.look();
        let has_ended = !table.is_awaited(node);
        drop(table);
        wake(&woken, Some(waiter.id()));
        has_ended
    }

    /// Looks for the message of a receive that has timed out; returns true if there may be more.
    #[cold]
    fn look_at_last(&self, node: &OpNode) -> bool {
        let (woken, may_be_more) = self.table().look_at_last(node);
        wake(&woken, None);
        may_be_more
    }

    /// Looks for the end of the wait of `node`, while its fiber is the only one that could run.
    /// Returns true if it has ended, so that no wake comes.
    fn look_out(&self, node: &OpNode, waiter: &Waiter) -> bool {
        waiter.may_look_out(self.has_own_cpu) && waiter.look_out(|| self.look_for(node, waiter))
    }

    /// Sends data that the caller lends, and waits until MPI does not need it any more.
    ///
    /// # Safety
    ///
    /// As for [`post`](Self::post): the caller's frame keeps the data.
    #[inline]
    pub(crate) unsafe fn send(
        &'static self,
        site: CallSite,
        post: impl FnOnce(&mut u64) -> c_int,
    ) -> Result<(), MpiError> {
        let begun = self.begin(site)?;
        // SAFETY: by this function's contract.
        let request = match unsafe { self.post(site, post)? } {
            Posted::Ended => return Ok(()),
            Posted::Pending(request) => request,
        };
        let (node, waiter) = (OpNode::default(), begun.waiter);
        let mut table = self.table();
        // SAFETY: the node leaves the table before this function does, as `LentRequest` waits.
        unsafe { table.insert(request, NonNull::from(&node), Some(waiter.id())) };
        self.activate(&mut table);
        drop(table);
        let lent = LentRequest { engine: self, site, node: &node, has_ended: false };
        lent.wait(waiter, Deadline::NEVER).map(drop)
    }

    /// Receives a message into memory that the caller lends, or waits for it with a probe. The
    /// caller receives the message that a probe finds, which is part of the operation.
    ///
    /// # Safety
    ///
    /// The caller's frame keeps the communicator and the memory.
    #[inline]
    pub(crate) unsafe fn receive(
        &'static self,
        site: CallSite,
        wanted: Wanted,
        into: Destination,
        deadline: Deadline,
    ) -> Result<(OpEnd, InProgress), MpiError> {
        let BegunOp { operation, waiter } = self.begin(site)?;
        let node = OpNode::default();
        // SAFETY: by this function's contract.
        let end = match unsafe { self.post_receive(wanted, into, &node, Some(&waiter)) } {
            Some(end) => site.checked(end)?,
            None => {
                let lent = LentRequest { engine: self, site, node: &node, has_ended: false };
                lent.wait(waiter, deadline)?
            }
        };
        Ok((end, operation))
    }

    /// Posts a receive into memory that the caller lends, to be waited for later in its frame.
    ///
    /// # Safety
    ///
    /// As for [`receive`](Self::receive). The result is not leaked.
    pub(crate) unsafe fn lend<'n>(
        &'static self,
        site: CallSite,
        wanted: Wanted,
        into: Destination,
        node: &'n OpNode,
    ) -> Result<Lent<'n>, MpiError> {
        let operation = self.begin(site)?.operation;
        // SAFETY: by this function's contract.
        Ok(match unsafe { self.post_receive(wanted, into, node, None) } {
            Some(end) => Lent::Ended(site.checked(end)?),
            None => {
                let lent = LentRequest { engine: self, site, node, has_ended: false };
                Lent::Pending(lent, operation)
            }
        })
    }

    /// Posts a receive.
    ///
    /// # Safety
    ///
    /// As [`RequestTable::post_receive`].
    #[inline]
    unsafe fn post_receive(
        &self,
        wanted: Wanted,
        into: Destination,
        node: &OpNode,
        waiter: Option<&Waiter>,
    ) -> Option<OpEnd> {
        let (node, waiter) = (NonNull::from(node), waiter.map(Waiter::id));
        let mut table = self.table();
        // SAFETY: by this function's contract.
        let end = unsafe { table.post_receive(wanted, into, node, waiter) };
        if end.is_none() {
            self.activate(&mut table);
        }
        end
    }
}

/// Wakes the waiters, except the caller. The lock of the table is free.
fn wake(woken: &Woken, caller: Option<WaiterId>) {
    let call = Call::enter();
    let others = woken.ids().filter(|&waiter| Some(waiter) != caller);
    others.for_each(|waiter| wait::wake(call.token(), Some(waiter)));
}

/// A request that was posted.
enum Posted {
    Ended,
    Pending(u64),
}

/// A receive of [`Engine::lend`].
pub(crate) enum Lent<'n> {
    Ended(OpEnd),
    Pending(LentRequest<'n>, InProgress),
}

impl Lent<'_> {
    pub(crate) fn wait(self, deadline: Deadline) -> Result<OpEnd, MpiError> {
        match self {
            Lent::Ended(end) => Ok(end),
            Lent::Pending(lent, _operation) => {
                // SAFETY: used by this call, on its own thread.
                let waiter = unsafe { Waiter::caller(lent.site.operation) };
                match lent.await_end(&waiter) {
                    Some(end) => lent.ended(end),
                    None => lent.wait(waiter, deadline),
                }
            }
        }
    }
}

/// A node in the table with a buffer of the caller's: however its frame is left, the operation has
/// ended before.
pub(crate) struct LentRequest<'n> {
    engine: &'static Engine,
    site: CallSite,
    node: &'n OpNode,
    has_ended: bool,
}

impl LentRequest<'_> {
    /// Has `waiter` wait for the end; returns it if it is there.
    fn await_end(&self, waiter: &Waiter) -> Option<OpEnd> {
        self.engine.table().await_end(self.node, waiter.id())
    }

    fn ended(mut self, end: OpEnd) -> Result<OpEnd, MpiError> {
        self.has_ended = true;
        self.site.checked(end)
    }

    /// Waits for the end, as `waiter`, which the table knows.
    fn wait(self, waiter: Waiter, deadline: Deadline) -> Result<OpEnd, MpiError> {
        if self.engine.look_out(self.node, &waiter) {
            let end = self.node.end_after_wake();
            return self.ended(end);
        }
        let call = Call::enter();
        let awaited = AwaitedEnd { engine: self.engine, node: self.node };
        let ended = waiter.wait_for(call.token(), &awaited, deadline);
        drop(call);
        let end = match ended {
            Ended::Claimed(_) => self.node.end_after_wake(),
            Ended::TimedOut => {
                // A message that has come is received, although no poller has looked meanwhile.
                while self.engine.look_at_last(self.node) {}
                self.end_early()
            }
        };
        match end.status.cancelled {
            0 => self.ended(end),
            _ => self.ended(OpEnd::default()).and(Err(MpiError::TimedOut)),
        }
    }

    /// Withdraws a receive, or waits for the end of one that cannot be withdrawn, also if the fiber
    /// is cancelled meanwhile.
    #[cold]
    fn end_early(&self) -> OpEnd {
        self.engine.table().withdraw(self.node);
        shield(|| wait_to_the_end(self.engine, self.node))
    }
}

impl Drop for LentRequest<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end_early();
        }
    }
}

/// Waits for the end of a request, without a deadline. The caller is shielded from cancels.
fn wait_to_the_end(engine: &'static Engine, node: &OpNode) -> OpEnd {
    // SAFETY: used by this call, on its own thread.
    let waiter = unsafe { Waiter::unasked() };
    if let Some(end) = engine.table().await_end(node, waiter.id()) {
        return end;
    }
    let call = Call::enter();
    let awaited = AwaitedEnd { engine, node };
    match waiter.wait_for(call.token(), &awaited, Deadline::NEVER) {
        Ended::Claimed(_) => node.end_after_wake(),
        Ended::TimedOut => unreachable!("there is no deadline"),
    }
}

/// A request that owns its buffers, so that its fiber may go: the table keeps them until it has
/// ended.
pub(crate) struct OwnedRequest<B: Send + 'static> {
    engine: &'static Engine,
    site: CallSite,
    state: OwnedState,
    /// `None` once they were taken.
    buffers: Option<B>,
}

enum OwnedState {
    Ended(OpEnd),
    Pending(Arc<OpNode>, Option<InProgress>),
}

impl<B: Send + 'static> OwnedRequest<B> {
    /// Posts a request with these buffers.
    ///
    /// # Safety
    ///
    /// The request that `post` leaves in its second argument is new, and uses no other memory than
    /// that which the buffers own, on the heap.
    pub(crate) unsafe fn post(
        engine: &'static Engine,
        site: CallSite,
        mut buffers: B,
        post: impl FnOnce(&mut B, &mut u64) -> c_int,
    ) -> Result<Self, MpiError> {
        let operation = engine.enter()?;
        // SAFETY: the buffers stay on the heap until the request has ended: in `Self`, then in the
        // table.
        let posted = unsafe { engine.post(site, |request| post(&mut buffers, request))? };
        let state = match posted {
            Posted::Ended => OwnedState::Ended(OpEnd::default()),
            Posted::Pending(request) => {
                let node = Arc::new(OpNode::default());
                let mut table = engine.table();
                // SAFETY: the request is new; if `Self` is dropped, the node leaves the table, and
                // if it is leaked, the node stays.
                unsafe { table.insert(request, NonNull::from(node.deref()), None) };
                engine.activate(&mut table);
                OwnedState::Pending(node, Some(operation))
            }
        };
        Ok(OwnedRequest { engine, site, state, buffers: Some(buffers) })
    }

    /// Posts a receive into these buffers.
    ///
    /// # Safety
    ///
    /// The destination is memory that the buffers own, on the heap. The communicator lives until
    /// the request has ended or is dropped.
    pub(crate) unsafe fn receive(
        engine: &'static Engine,
        site: CallSite,
        wanted: Wanted,
        into: Destination,
        buffers: B,
    ) -> Result<Self, MpiError> {
        let operation = engine.enter()?;
        let node = Arc::new(OpNode::default());
        // SAFETY: by this function's contract; the node and the buffers stay as in `post`.
        let state = match unsafe { engine.post_receive(wanted, into, &node, None) } {
            Some(end) => OwnedState::Ended(end),
            None => OwnedState::Pending(node, Some(operation)),
        };
        Ok(OwnedRequest { engine, site, state, buffers: Some(buffers) })
    }

    /// Returns true if the request has ended.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.state {
            OwnedState::Ended(_) => true,
            OwnedState::Pending(node, _) => self.engine.table().end_of(node).is_some(),
        }
    }

    /// Waits for the end. A cancel unwinds, and the request goes on.
    ///
    /// # Errors
    ///
    /// Those of MPI; [`MpiError::TimedOut`], and the request goes on.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Result<OpEnd, MpiError> {
        let OwnedState::Pending(node, operation) = &mut self.state else {
            let OwnedState::Ended(end) = self.state else { unreachable!("the other state") };
            return self.site.checked(end);
        };
        // SAFETY: used by this call, on its own thread.
        let waiter = unsafe { Waiter::caller(self.site.operation) };
        let ended = self.engine.table().await_end(node, waiter.id());
        let end = ended.or_else(|| {
            let call = Call::enter();
            let awaited = AwaitedEnd { engine: self.engine, node };
            match waiter.wait_for(call.token(), &awaited, deadline) {
                Ended::Claimed(_) => Some(node.end_after_wake()),
                Ended::TimedOut => None,
            }
        });
        let end = end.ok_or(MpiError::TimedOut)?;
        drop(operation.take());
        self.state = OwnedState::Ended(end);
        self.site.checked(end)
    }

    /// Returns the buffers of a request that has ended.
    pub(crate) fn into_buffers(mut self) -> B {
        debug_assert!(matches!(self.state, OwnedState::Ended(_)));
        self.buffers.take().expect("they are taken here alone")
    }
}

impl<B: Send + 'static> Drop for OwnedRequest<B> {
    fn drop(&mut self) {
        let OwnedState::Pending(node, operation) = &mut self.state else { return };
        let (Some(buffers), Some(operation)) = (self.buffers.take(), operation.take()) else {
            return;
        };
        let mut table = self.engine.table();
        table.withdraw(node);
        let unused = table.abandon(node, buffers, operation);
        drop(table);
        drop(unused);
    }
}

/// The end of the operation of a node.
struct AwaitedEnd<'n> {
    engine: &'static Engine,
    node: &'n OpNode,
}

impl Wait for AwaitedEnd<'_> {
    fn leave(&self, _: InCall<'_>) -> Unlinked {
        match self.engine.table().withdraw_wait(self.node) {
            true => Unlinked::Mine,
            false => Unlinked::AlreadyGone,
        }
    }

    fn note(&self) -> u8 {
        0
    }

    /// A message has one receiver: it is received.
    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        false
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::of(WaitKind::Unknown)
    }
}
