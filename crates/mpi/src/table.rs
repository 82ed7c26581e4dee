//! The requests that fibers wait for, as the poller looks at them: windows of 64, so that a look
//! has a bounded time.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr::NonNull;

use daiko_core::fiber::WaiterId;

use crate::gate::InProgress;
use crate::raw::{self, RawStatus, RawWindow, WINDOW};

/// Windows, or probes, that a look tests unless it finds something before.
const TESTS: usize = 4;
/// Looks without any request before the poller becomes inactive: a fiber that waits again soon does
/// not pay for its return.
const IDLE_LOOKS: u32 = 64;

/// The end of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpEnd {
    pub(crate) status: RawStatus,
    /// The handle of a message that a probe has matched.
    pub(crate) message: u64,
}

/// A request or a probe, as the table and its waiter share it. It lies in the waiter's frame or in
/// an `Arc`, and stays there until it has left the table.
#[derive(Default)]
pub(crate) struct OpNode(UnsafeCell<NodeState>);

#[derive(Default)]
struct NodeState {
    /// The place in the table, until the request has ended.
    place: Option<u32>,
    /// The waiter that the end wakes. Whichever thread takes it out has claimed the wait.
    waiter: Option<WaiterId>,
    end: Option<OpEnd>,
}

// SAFETY: the state is used under the lock of the table; after its wake, by the waiter alone.
unsafe impl Send for OpNode {}
// SAFETY: as above.
unsafe impl Sync for OpNode {}

impl OpNode {
    /// Returns the end. Only by its waiter, after its wake.
    pub(crate) fn end_after_wake(&self) -> OpEnd {
        // SAFETY: the table's last access was before the wake.
        unsafe { (*self.0.get()).end }.expect("woken, so it has ended")
    }
}

/// The party that a place of a window belongs to.
enum Owner {
    Free,
    /// A node that is in no other place, and stays until it has left this one.
    Node(NonNull<OpNode>),
    /// Nothing waits for the request: its buffers, and its operation, end with it.
    Left(#[expect(dead_code, reason = "kept until dropped")] (Box<dyn Send>, InProgress)),
}

struct TestWindow {
    raw: RawWindow,
    owners: [Owner; WINDOW],
    live: usize,
    /// The places below have been in use.
    top: usize,
}

/// A probe that has not matched a message.
struct Probe {
    comm: u64,
    from: c_int,
    tag: c_int,
    node: NonNull<OpNode>,
}

/// The table, under the lock of the engine.
pub(crate) struct RequestTable {
    windows: Vec<TestWindow>,
    /// Places that are free below the tops.
    free: Vec<u32>,
    probes: Vec<Probe>,
    live: usize,
    left: usize,
    /// The window, and the probe, that is looked at next.
    next_window: usize,
    next_probe: usize,
    pub(crate) is_active: bool,
    idle_looks: u32,
}

// SAFETY: the nodes are `Sync`, and stay while they are in the table; buffers are `Send`.
unsafe impl Send for RequestTable {}

/// Waiters to wake, once the lock is free.
pub(crate) struct Woken {
    ids: [Option<WaiterId>; WINDOW],
    count: usize,
    /// Operations that have ended, with a waiter or without.
    pub(crate) ended: usize,
}

impl Woken {
    fn new() -> Self {
        Woken { ids: [None; WINDOW], count: 0, ended: 0 }
    }

    fn push(&mut self, waiter: Option<WaiterId>) {
        self.ended += 1;
        if waiter.is_some() {
            self.ids[self.count] = waiter;
            self.count += 1;
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = WaiterId> + '_ {
        self.ids[..self.count].iter().copied().flatten()
    }
}

impl RequestTable {
    pub(crate) const fn new() -> Self {
        RequestTable {
            windows: Vec::new(),
            free: Vec::new(),
            probes: Vec::new(),
            live: 0,
            left: 0,
            next_window: 0,
            next_probe: 0,
            is_active: false,
            idle_looks: 0,
        }
    }

    /// Returns the numbers of requests, of probes, and of those requests that nothing waits for.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.live, self.probes.len(), self.left)
    }

    /// Enters a request. `waiter` waits for it from now on.
    ///
    /// # Safety
    ///
    /// The request is one of MPI, pending, and in no other place. The node is in no place, and
    /// stays until its request has ended or it was [abandoned](Self::abandon).
    pub(crate) unsafe fn insert(
        &mut self,
        request: u64,
        node: NonNull<OpNode>,
        waiter: Option<WaiterId>,
    ) {
        let place = self.free.pop().unwrap_or_else(|| self.new_place());
        let (window, at) = self.at(place);
        window.owners[at] = Owner::Node(node);
        window.live += 1;
        // SAFETY: the window is alive, `at` lies within, and the request is MPI's.
        unsafe { raw::daiko_mpi_put(&mut window.raw, at as c_int, request) };
        // SAFETY: the node is alive, and the lock is held.
        let state = unsafe { &mut *node.as_ref().0.get() };
        (state.place, state.waiter) = (Some(place), waiter);
        self.live += 1;
        self.idle_looks = 0;
    }

    fn new_place(&mut self) -> u32 {
        if self.windows.last().is_none_or(|window| window.top == WINDOW) {
            let mut window = TestWindow {
                raw: RawWindow([0; WINDOW]),
                owners: [const { Owner::Free }; WINDOW],
                live: 0,
                top: 0,
            };
            // SAFETY: the window is alive.
            unsafe { raw::daiko_mpi_clear(&mut window.raw) };
            self.windows.push(window);
        }
        let index = self.windows.len() - 1;
        let window = &mut self.windows[index];
        window.top += 1;
        (index * WINDOW + window.top - 1) as u32
    }

    fn at(&mut self, place: u32) -> (&mut TestWindow, usize) {
        (&mut self.windows[place as usize / WINDOW], place as usize % WINDOW)
    }

    /// Enters a probe.
    ///
    /// # Safety
    ///
    /// The communicator lives, and the node stays, until the probe has matched or was
    /// [withdrawn](Self::withdraw_probe).
    pub(crate) unsafe fn insert_probe(
        &mut self,
        (comm, from, tag): (u64, c_int, c_int),
        node: NonNull<OpNode>,
        waiter: WaiterId,
    ) {
        // SAFETY: the node is alive, and the lock is held.
        unsafe { (*node.as_ref().0.get()).waiter = Some(waiter) };
        self.probes.push(Probe { comm, from, tag, node });
        self.idle_looks = 0;
    }

    /// Takes a probe out; returns false if it has matched a message before.
    pub(crate) fn withdraw_probe(&mut self, node: &OpNode) -> bool {
        let at = self.probes.iter().position(|probe| std::ptr::eq(probe.node.as_ptr(), node));
        at.map(|at| self.probes.swap_remove(at)).is_some()
    }

    /// Has `waiter` wait for the request of the node. Returns its end if it has ended.
    pub(crate) fn await_end(&mut self, node: &OpNode, waiter: WaiterId) -> Option<OpEnd> {
        // SAFETY: the lock is held.
        let state = unsafe { &mut *node.0.get() };
        if state.end.is_none() {
            state.waiter = Some(waiter);
        }
        state.end
    }

    pub(crate) fn end_of(&mut self, node: &OpNode) -> Option<OpEnd> {
        // SAFETY: the lock is held.
        unsafe { (*node.0.get()).end }
    }

    /// Withdraws the wait for the request of the node; returns false if it was claimed before.
    pub(crate) fn withdraw_wait(&mut self, node: &OpNode) -> bool {
        // SAFETY: the lock is held.
        unsafe { (*node.0.get()).waiter.take() }.is_some()
    }

    /// Asks MPI to cancel the request of the node, unless it has ended. It ends in any case: as
    /// cancelled, or as it would have.
    pub(crate) fn cancel(&mut self, node: &OpNode) {
        // SAFETY: the lock is held.
        let Some(place) = (unsafe { (*node.0.get()).place }) else { return };
        let (window, at) = self.at(place);
        // SAFETY: the place has a pending request. An error means that it cannot be cancelled, so
        // it ends as it would have.
        unsafe { raw::daiko_mpi_cancel(&mut window.raw, at as c_int) };
    }

    /// Leaves the request of the node to the table, with its buffers, until it has ended. Returns
    /// them if it has ended before.
    pub(crate) fn abandon<B: Send + 'static>(
        &mut self,
        node: &OpNode,
        buffers: B,
        operation: InProgress,
    ) -> Option<(B, InProgress)> {
        // SAFETY: the lock is held.
        let state = unsafe { &mut *node.0.get() };
        let Some(place) = state.place.take() else { return Some((buffers, operation)) };
        state.waiter = None;
        let (window, at) = self.at(place);
        window.owners[at] = Owner::Left((Box::new(buffers), operation));
        self.left += 1;
        None
    }

    /// Looks at some requests and probes once. Returns the waiters of those that have ended.
    pub(crate) fn look(&mut self) -> Woken {
        let mut woken = Woken::new();
        self.look_at_windows(&mut woken);
        if woken.ended == 0 && !self.probes.is_empty() {
            self.look_at_probes(&mut woken);
        }
        woken
    }

    /// Tests windows in turn, until one has ended requests. A window that is alone is tested twice:
    /// Open MPI's `MPI_Testsome` looks, makes progress, and does not look again.
    fn look_at_windows(&mut self, woken: &mut Woken) {
        let (mut tests, mut windows) = (TESTS.min(self.live.div_ceil(WINDOW).max(2)), 0);
        while self.live > 0 && tests > 0 && windows < 2 * self.windows.len() {
            self.next_window =
                if self.next_window < self.windows.len() { self.next_window } else { 0 };
            windows += 1;
            if self.windows[self.next_window].live > 0 {
                tests -= 1;
                self.test_window(self.next_window, woken);
                if woken.ended > 0 {
                    return;
                }
            }
            self.next_window += 1;
        }
    }

    fn test_window(&mut self, index: usize, woken: &mut Woken) {
        let window = &mut self.windows[index];
        let mut places = [0; WINDOW];
        let mut ends = [RawStatus::default(); WINDOW];
        // SAFETY: the window is alive, and the arrays have as many elements.
        let ended = unsafe {
            raw::daiko_mpi_testsome(
                &mut window.raw,
                window.top as c_int,
                places.as_mut_ptr(),
                ends.as_mut_ptr(),
            )
        };
        for (&at, &status) in places.iter().zip(&ends).take(ended as usize) {
            let at = at as usize;
            match std::mem::replace(&mut window.owners[at], Owner::Free) {
                Owner::Node(node) => {
                    // SAFETY: the node stays until here, and the lock is held.
                    let state = unsafe { &mut *node.as_ref().0.get() };
                    state.place = None;
                    state.end = Some(OpEnd { status, message: 0 });
                    woken.push(state.waiter.take());
                }
                Owner::Left(..) => {
                    self.left -= 1;
                    woken.push(None);
                }
                Owner::Free => unreachable!("no request is in a free place"),
            }
            window.live -= 1;
            self.live -= 1;
            self.free.push((index * WINDOW + at) as u32);
        }
    }

    fn look_at_probes(&mut self, woken: &mut Woken) {
        for _ in 0..TESTS.min(self.probes.len()) {
            self.next_probe = if self.next_probe < self.probes.len() { self.next_probe } else { 0 };
            let Probe { comm, from, tag, node } = self.probes[self.next_probe];
            let mut end = OpEnd::default();
            let Some(error) = probe(comm, from, tag, &mut end) else {
                self.next_probe += 1;
                continue;
            };
            end.status.error = error;
            self.probes.swap_remove(self.next_probe);
            // SAFETY: the node stays until here, and the lock is held.
            let state = unsafe { &mut *node.as_ref().0.get() };
            state.end = Some(end);
            woken.push(state.waiter.take());
            if self.probes.is_empty() {
                return;
            }
        }
    }

    /// Returns true once there has been nothing to look for for some looks.
    pub(crate) fn is_idle(&mut self) -> bool {
        if self.live > 0 || !self.probes.is_empty() {
            self.idle_looks = 0;
            return false;
        }
        self.idle_looks += 1;
        self.idle_looks >= IDLE_LOOKS
    }
}

/// Looks for a message; returns an error code, or 0 if one was matched, `None` if there is none.
pub(crate) fn probe(comm: u64, from: c_int, tag: c_int, end: &mut OpEnd) -> Option<c_int> {
    let mut found = 0;
    // SAFETY: the communicator is alive; the call writes to live locals.
    let error = unsafe {
        raw::daiko_mpi_improbe(from, tag, comm, &mut found, &mut end.message, &mut end.status)
    };
    (error != 0 || found != 0).then_some(error)
}
