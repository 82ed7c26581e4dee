//! The receives and the requests that fibers wait for, as the poller looks at them: messages by
//! matching them here, requests in windows of 64, so that a look has a bounded time.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr::NonNull;

use daiko_core::fiber::WaiterId;

use crate::gate::InProgress;
use crate::matching::{ANY, MatchKey, Matcher, PostedId};
use crate::raw::{self, RawStatus, RawWindow, WINDOW};

/// Windows that a look tests unless it finds something before.
const TESTS: usize = 4;
/// Messages that a look takes at most.
const MESSAGES: usize = WINDOW;
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

/// A receive, a probe or a request, as the table and its waiter share it. It lies in the waiter's
/// frame or in an `Arc`, and stays there until it has left the table.
#[derive(Default)]
pub(crate) struct OpNode(UnsafeCell<NodeState>);

#[derive(Default)]
struct NodeState {
    place: Place,
    /// The waiter that the end wakes. Whichever thread takes it out has claimed the wait.
    waiter: Option<WaiterId>,
    end: Option<OpEnd>,
}

/// The place of a node in the table.
#[derive(Clone, Copy, Default)]
enum Place {
    /// None: it has ended, or was not entered.
    #[default]
    Outside,
    /// A receive or a probe, for which no message has come.
    Posted(CommSlot, PostedId),
    /// A receive that MPI matches, in this place of a window.
    Receive(u32),
    /// Another request, in this place of a window.
    Request(u32),
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

/// The number of a communicator in the table.
pub(crate) type CommSlot = usize;

/// A receive, or a probe, of a node that stays until it was given a message or withdrawn.
pub(crate) struct PostedReceive {
    node: NonNull<OpNode>,
    into: Destination,
}

/// The use of a message that matches.
#[derive(Clone, Copy)]
pub(crate) enum Destination {
    /// It is received into this memory, of so many bytes.
    Buffer(*mut u8, c_int),
    /// Its handle is told, for a probe.
    Handle,
}

/// A message that MPI gives to no other receive.
#[derive(Clone, Copy)]
pub(crate) struct ArrivedMessage {
    pub(crate) handle: u64,
    pub(crate) status: RawStatus,
}

struct CommMessages {
    comm: u64,
    matcher: Matcher<PostedReceive, ArrivedMessage>,
}

/// The table, under the lock of the engine.
pub(crate) struct RequestTable {
    windows: Vec<TestWindow>,
    /// Places that are free below the tops.
    free: Vec<u32>,
    /// The communicators by their slots; `None` of one that was freed.
    comms: Vec<Option<CommMessages>>,
    /// Receives and probes that wait for a message, and the probes among them.
    waiting: usize,
    probes: usize,
    live: usize,
    left: usize,
    /// The window, and the communicator, that is looked at next.
    next_window: usize,
    next_comm: CommSlot,
    /// True if a look begins with the windows.
    is_turn_of_windows: bool,
    pub(crate) is_active: bool,
    idle_looks: u32,
}

// SAFETY: the nodes are `Sync`, and stay while they are in the table; buffers are `Send`, and those
// of receives belong to the table while it has their nodes.
unsafe impl Send for RequestTable {}

/// Waiters to wake, once the lock is free.
pub(crate) struct Woken {
    ids: [Option<WaiterId>; WINDOW],
    count: usize,
    /// Operations that have ended, with a waiter or without.
    pub(crate) ended: usize,
}

impl Woken {
    pub(crate) fn new() -> Self {
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
            comms: Vec::new(),
            waiting: 0,
            probes: 0,
            live: 0,
            left: 0,
            next_window: 0,
            next_comm: 0,
            is_turn_of_windows: false,
            is_active: false,
            idle_looks: 0,
        }
    }

    /// Returns the numbers of receives and requests, of probes, and of those requests that nothing
    /// waits for.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.live + self.waiting - self.probes, self.probes, self.left)
    }

    /// Enters a communicator, of which all messages are received through the table.
    pub(crate) fn add_comm(&mut self, comm: u64) -> CommSlot {
        let entry = Some(CommMessages { comm, matcher: Matcher::new() });
        match self.comms.iter().position(Option::is_none) {
            Some(free) => {
                self.comms[free] = entry;
                free
            }
            None => {
                self.comms.push(entry);
                self.comms.len() - 1
            }
        }
    }

    /// Takes a communicator out, that no receive waits on; returns the messages that no receive has
    /// wanted.
    pub(crate) fn remove_comm(&mut self, slot: CommSlot) -> Vec<ArrivedMessage> {
        let removed = self.comms[slot].take();
        removed.map(|mut comm| comm.matcher.take_messages()).unwrap_or_default()
    }

    fn comm(&mut self, slot: CommSlot) -> &mut CommMessages {
        self.comms[slot].as_mut().expect("it is freed with its last handle")
    }

    /// Posts a receive or a probe. Returns its end if it has ended already; else `waiter` waits for
    /// it from now on.
    ///
    /// # Safety
    ///
    /// The node is in no place. It stays, and so does the buffer, until the receive has ended or
    /// was [withdrawn](Self::withdraw), or the node was [abandoned](Self::abandon).
    pub(crate) unsafe fn post_receive(
        &mut self,
        (slot, key): (CommSlot, MatchKey),
        into: Destination,
        node: NonNull<OpNode>,
        waiter: Option<WaiterId>,
    ) -> Option<OpEnd> {
        self.idle_looks = 0;
        if let Some(message) = self.comm(slot).matcher.find(key) {
            // SAFETY: by this function's contract.
            return unsafe { self.receive(message, into, node, waiter) };
        }
        if let (Destination::Buffer(data, bytes), 0) = (into, self.live + self.waiting) {
            let (comm, buffer) = (self.comm(slot).comm, (data, bytes));
            // SAFETY: as above.
            return unsafe { self.post_alone(comm, key, buffer, node, waiter) };
        }
        let matcher = &mut self.comm(slot).matcher;
        let id = matcher.post(key, PostedReceive { node, into });
        self.waiting += 1;
        self.probes += usize::from(into.is_probe());
        // SAFETY: the node is alive, and the lock is held.
        let state = unsafe { &mut *node.as_ref().0.get() };
        (state.place, state.waiter) = (Place::Posted(slot, id), waiter);
        None
    }

    /// Has MPI match a receive, as no other one waits here: it is the oldest, so that MPI gives it
    /// its message before the table gets to see one.
    ///
    /// # Safety
    ///
    /// As for [`post_receive`](Self::post_receive).
    unsafe fn post_alone(
        &mut self,
        comm: u64,
        key: MatchKey,
        (data, bytes): (*mut u8, c_int),
        node: NonNull<OpNode>,
        waiter: Option<WaiterId>,
    ) -> Option<OpEnd> {
        let (data, source, tag) = (data.cast(), key.source(), key.tag());
        let (mut request, mut ended, mut status) = (0, 0, RawStatus::default());
        // SAFETY: the communicator is alive, the buffer stays by this function's contract, and the
        // calls write to live locals.
        let error = unsafe {
            match raw::daiko_mpi_irecv(data, bytes, source, tag, comm, &mut request) {
                0 => raw::daiko_mpi_test(request, &mut ended, &mut status),
                error => error,
            }
        };
        if error == 0 && ended == 0 {
            // SAFETY: the request is new and pending; the node by this function's contract.
            unsafe { self.insert(request, node, waiter) };
            // SAFETY: the node is alive, and the lock is held.
            let state = unsafe { &mut *node.as_ref().0.get() };
            if let Place::Request(place) = state.place {
                state.place = Place::Receive(place);
            }
            return None;
        }
        status.error = error;
        Some(OpEnd { status, ..OpEnd::default() })
    }

    /// Receives a message for a node. Returns the end if it is there at once; else enters the
    /// request.
    ///
    /// # Safety
    ///
    /// As for [`post_receive`](Self::post_receive).
    unsafe fn receive(
        &mut self,
        message: ArrivedMessage,
        into: Destination,
        node: NonNull<OpNode>,
        waiter: Option<WaiterId>,
    ) -> Option<OpEnd> {
        let ArrivedMessage { handle, mut status } = message;
        let Destination::Buffer(data, bytes) = into else {
            return Some(OpEnd { status, message: handle });
        };
        let (mut request, mut ended) = (0, 0);
        // SAFETY: the message was matched for this receive alone, the buffer stays by this
        // function's contract, and the calls write to live locals.
        let error = unsafe {
            match raw::daiko_mpi_imrecv(data.cast(), bytes, handle, &mut request) {
                0 => raw::daiko_mpi_test(request, &mut ended, std::ptr::null_mut()),
                error => error,
            }
        };
        if error != 0 {
            status.error = error;
        } else if ended == 0 {
            // SAFETY: the request is new and pending; the node by this function's contract.
            unsafe { self.insert(request, node, waiter) };
            return None;
        }
        Some(OpEnd { status, ..OpEnd::default() })
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
        (state.place, state.waiter) = (Place::Request(place), waiter);
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

    /// Returns true if a waiter waits for the end of the node.
    pub(crate) fn is_awaited(&mut self, node: &OpNode) -> bool {
        // SAFETY: the lock is held.
        unsafe { (*node.0.get()).waiter.is_some() }
    }

    /// Withdraws the wait for the request of the node; returns false if it was claimed before.
    pub(crate) fn withdraw_wait(&mut self, node: &OpNode) -> bool {
        // SAFETY: the lock is held.
        unsafe { (*node.0.get()).waiter.take() }.is_some()
    }

    /// Withdraws a receive or a probe, unless a message has come for it. It ends in any case: as
    /// cancelled, at once or when MPI says so, or as it would have. So do other requests.
    pub(crate) fn withdraw(&mut self, node: &OpNode) {
        // SAFETY: the lock is held.
        let state = unsafe { &mut *node.0.get() };
        let (slot, id) = match state.place {
            Place::Posted(slot, id) => (slot, id),
            Place::Receive(place) => {
                let (window, at) = self.at(place);
                // SAFETY: the place has a pending receive. An error means that it cannot be
                // cancelled, so it ends as it would have.
                unsafe { raw::daiko_mpi_cancel(&mut window.raw, at as c_int) };
                return;
            }
            Place::Request(_) | Place::Outside => return,
        };
        let receive = self.comm(slot).matcher.withdraw(id).expect("its place says so");
        self.count_out(&receive);
        state.place = Place::Outside;
        let status = RawStatus { cancelled: 1, ..RawStatus::default() };
        state.end = Some(OpEnd { status, ..OpEnd::default() });
    }

    /// Looks for the message of a receive that has timed out. Returns the waiters of earlier
    /// messages, and true if there may be more.
    pub(crate) fn look_at_last(&mut self, node: &OpNode) -> (Woken, bool) {
        let mut woken = Woken::new();
        // SAFETY: the lock is held.
        let Place::Posted(slot, _) = (unsafe { (*node.0.get()).place }) else {
            return (woken, false);
        };
        let may_be_more = self.take_messages(slot, &mut woken);
        (woken, may_be_more)
    }

    /// Counts out a receive that waits no more.
    fn count_out(&mut self, receive: &PostedReceive) {
        self.waiting -= 1;
        self.probes -= usize::from(receive.into.is_probe());
    }

    /// Leaves the request of the node to the table, with its buffers, until it has ended. Returns
    /// them if it has ended before. A receive was [withdrawn](Self::withdraw), if it could be.
    pub(crate) fn abandon<B: Send + 'static>(
        &mut self,
        node: &OpNode,
        buffers: B,
        operation: InProgress,
    ) -> Option<(B, InProgress)> {
        // SAFETY: the lock is held.
        let state = unsafe { &mut *node.0.get() };
        let (Place::Request(place) | Place::Receive(place)) = state.place else {
            return Some((buffers, operation));
        };
        (state.place, state.waiter) = (Place::Outside, None);
        let (window, at) = self.at(place);
        window.owners[at] = Owner::Left((Box::new(buffers), operation));
        self.left += 1;
        None
    }

    /// Looks once for messages and at some requests. Returns the waiters of those that have ended.
    pub(crate) fn look(&mut self) -> Woken {
        let mut woken = Woken::new();
        self.is_turn_of_windows = !self.is_turn_of_windows;
        if self.is_turn_of_windows {
            self.look_at_windows(&mut woken);
        }
        if woken.ended == 0 && self.waiting > 0 {
            self.look_for_messages(&mut woken);
        }
        if woken.ended == 0 && !self.is_turn_of_windows {
            self.look_at_windows(&mut woken);
        }
        woken
    }

    /// Looks for messages of one communicator after another, until one has some.
    fn look_for_messages(&mut self, woken: &mut Woken) {
        for _ in 0..self.comms.len() {
            self.next_comm = if self.next_comm < self.comms.len() { self.next_comm } else { 0 };
            let slot = self.next_comm;
            self.take_messages(slot, woken);
            if woken.ended > 0 {
                return;
            }
            self.next_comm += 1;
        }
    }

    /// Takes messages of a communicator while a receive waits there; returns true if there may be
    /// more. The first try may only make the progress that lets the second find a message.
    fn take_messages(&mut self, slot: CommSlot, woken: &mut Woken) -> bool {
        let (mut taken, mut misses) = (0, 0);
        while taken < MESSAGES {
            let Some(CommMessages { comm, matcher }) = &self.comms[slot] else { return false };
            if matcher.waiting() == 0 {
                return false;
            }
            match probe(*comm, MatchKey::new(ANY, ANY)) {
                Ok(Some(message)) => {
                    taken += 1;
                    self.arrive(slot, message, woken);
                }
                Ok(None) if taken + misses > 0 => return false,
                Ok(None) => misses += 1,
                Err(_) => {
                    self.look_for_each(slot, woken);
                    return false;
                }
            }
        }
        true
    }

    /// Gives a message to the receive that wants it, if there is one.
    fn arrive(&mut self, slot: CommSlot, message: ArrivedMessage, woken: &mut Woken) {
        let key = MatchKey::new(message.status.source, message.status.tag);
        let Some((receive, message)) = self.comm(slot).matcher.arrive(key, message) else { return };
        self.count_out(&receive);
        let PostedReceive { node, into } = receive;
        // SAFETY: the node stays until it has ended, and the lock is held.
        let state = unsafe { &mut *node.as_ref().0.get() };
        state.place = Place::Outside;
        let waiter = state.waiter.take();
        // SAFETY: the node is in no place from here on, and stays as the receive has not ended.
        if let Some(end) = unsafe { self.receive(message, into, node, waiter) } {
            // SAFETY: as above; `receive` has not entered it.
            unsafe { (*node.as_ref().0.get()).end = Some(end) };
            woken.push(waiter);
        }
    }

    /// Looks for the message of each receive, as MPI has no answer for all of them: a rank has
    /// died. The receives from that rank end with the error.
    #[cold]
    fn look_for_each(&mut self, slot: CommSlot, woken: &mut Woken) {
        for (id, key) in self.comm(slot).matcher.posted() {
            if woken.ended == WINDOW {
                return;
            }
            let comm = self.comm(slot).comm;
            match probe(comm, key) {
                // An older receive may want it as well.
                Ok(Some(message)) => self.arrive(slot, message, woken),
                Ok(None) => {}
                Err(error) => self.fail(slot, id, error, woken),
            }
        }
    }

    /// Ends a receive with an error, unless it was given a message.
    fn fail(&mut self, slot: CommSlot, id: PostedId, error: c_int, woken: &mut Woken) {
        let Some(receive) = self.comm(slot).matcher.withdraw(id) else { return };
        self.count_out(&receive);
        // SAFETY: the node stays until here, and the lock is held.
        let state = unsafe { &mut *receive.node.as_ref().0.get() };
        state.place = Place::Outside;
        let status = RawStatus { error, ..RawStatus::default() };
        state.end = Some(OpEnd { status, ..OpEnd::default() });
        woken.push(state.waiter.take());
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
                    state.place = Place::Outside;
                    state.end = Some(OpEnd { status, ..OpEnd::default() });
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

    /// Returns true once there has been nothing to look for for some looks.
    pub(crate) fn is_idle(&mut self) -> bool {
        if self.live + self.waiting > 0 {
            self.idle_looks = 0;
            return false;
        }
        self.idle_looks += 1;
        self.idle_looks >= IDLE_LOOKS
    }
}

impl Destination {
    fn is_probe(self) -> bool {
        matches!(self, Destination::Handle)
    }
}

/// Takes a message of this key out of MPI, if one has arrived; or returns an error code.
fn probe(comm: u64, key: MatchKey) -> Result<Option<ArrivedMessage>, c_int> {
    let (mut found, mut handle, mut status) = (0, 0, RawStatus::default());
    // SAFETY: the communicator is alive; the call writes to live locals.
    let error = unsafe {
        raw::daiko_mpi_improbe(key.source(), key.tag(), comm, &mut found, &mut handle, &mut status)
    };
    match (error, found) {
        (0, 0) => Ok(None),
        (0, _) => Ok(Some(ArrivedMessage { handle, status })),
        (error, _) => Err(error),
    }
}
