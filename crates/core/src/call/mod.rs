//! One call from a client to a server, in a slot of memory that both share.
//!
//! README.md beside this file has the states, the steps and the proof. The payload lies behind the
//! slot; copying it, sleeping and waking are the caller's job.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence_behind_rmw, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The words of a call. They share a line with the first bytes of the payload, so that a small
/// message travels with its flag.
///
/// Budget of a call: one RMW of the client, one of the server, on a line that each has to own
/// anyway. It crosses twice. One more of the server, on the line of its [`CallMark`].
#[repr(C, align(8))]
#[derive(Debug)]
pub struct CallSlot {
    /// The phase and number of the call.
    state: AtomicU32,
    /// Length of the message in the slot. Written by the side that may use the slot.
    len: AtomicU32,
    /// Time that the client waits, in nanoseconds; 0: for ever. Written by the client.
    timeout: AtomicU64,
    /// The number plus one of the doorbell to ring for the reply; 0: no thread sleeps for it.
    /// Written by the client.
    bell: AtomicU32,
    /// The server's code for the kind of reply. Written by the server.
    code: AtomicU32,
}

/// The state word.
///
/// ```text
/// 31        4 3       0
/// |  number  | phase |
/// ```
///
/// The number counts the calls in this slot, so that a process that is slow, or was stopped, cannot
/// end a later call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallState(u32);

/// The phases of a call; any other value is a corrupt word.
mod phase {
    /// The client may write.
    pub(super) const IDLE: u32 = super::CLIENTS_TURN;
    /// The server has replied.
    pub(super) const REPLIED: u32 = super::CLIENTS_TURN | 1;
    /// The server has gone before it replied.
    pub(super) const LOST: u32 = super::CLIENTS_TURN | 2;
    /// The request is in the slot. The mark says whether a server has it in hand.
    pub(super) const REQUESTED: u32 = 1;
    /// The client has left: it does not read the reply, and no server takes the request any more.
    pub(super) const ABANDONED: u32 = 2;
}

/// The bit of the state word that says that the slot is the client's: the condition that the client
/// waits for.
pub const CLIENTS_TURN: u32 = 1 << 3;
const PHASE: u32 = 0xF;

impl CallState {
    const fn phase(self) -> u32 {
        self.0 & PHASE
    }

    const fn with(self, phase: u32) -> CallState {
        CallState(self.0 & !PHASE | phase)
    }

    const fn next_request(self) -> CallState {
        CallState((self.0 | PHASE).wrapping_add(1) | phase::REQUESTED)
    }

    const fn ticket(self) -> Ticket {
        Ticket(self.with(phase::REQUESTED).0)
    }
}

/// The call of one slot that a server has in hand, or had last, and the server's number. It lies
/// beside the slot, on a line that belongs to the servers: a server that takes a call need not take
/// the slot's line from the client, which looks at it meanwhile.
///
/// Servers write it; clients read it when they leave, or look for the server.
///
/// ```text
/// 63      32 31                  0
/// | server | ticket of the call |
/// ```
#[repr(C, align(64))]
#[derive(Debug)]
pub struct CallMark(AtomicU64);

impl CallMark {
    /// Creates the mark of a slot in which no call was taken.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the number of the server that has the call in hand, or had it before it died.
    #[inline]
    pub fn server_of(&self, ticket: Ticket) -> Option<u32> {
        // Acquire: pairs with the Release in `CallSlot::take_requested`: the caller sees all stores
        // of the server before it took the call, such as that it is there.
        let mark = self.0.load(unless_weakened!("call-server", Ordering::Acquire));
        (mark as u32 == ticket.0).then_some((mark >> 32) as u32)
    }

    #[inline]
    fn is_of(&self, ticket: Ticket) -> bool {
        self.server_of(ticket).is_some()
    }
}

/// One call in a slot, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// The call that was under way in a slot at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenCall(CallState);

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// No reply has come yet.
    Requested,
    /// A reply is in the slot.
    Replied,
    /// The server died before it replied; it may have carried out the request.
    Lost,
    /// The slot is in another call, or in none: a process violates the protocol.
    Corrupt,
}

/// The outcome of a client's leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Left {
    /// No server has seen the request; the slot is the client's.
    Withdrawn,
    /// A server has it in hand; the slot is the client's again once the server has finished.
    Abandoned,
    /// The call was over before.
    Over,
}

/// The outcome of a server's look at a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// No request, or a request that another server has.
    Nothing,
    /// A request, which is now this server's.
    Call(Ticket),
    /// A request that the client has left at the same moment: it is not carried out, and the slot
    /// is free.
    Left,
}

/// The receiver of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Delivered {
    /// The client, for which the caller rings.
    ToClient,
    /// No receiver: the client has left, and the slot is free.
    CallerLeft,
}

impl CallSlot {
    /// Creates a slot without a call.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(phase::IDLE),
            len: AtomicU32::new(0),
            timeout: AtomicU64::new(0),
            bell: AtomicU32::new(0),
            code: AtomicU32::new(0),
        }
    }

    /// Resets a free slot, in any state, to one without a call.
    pub fn renew(&self) {
        // Release: pairs with the Acquire in `state`, for the next client.
        let idle = CallState(self.state.load(Ordering::Relaxed)).with(phase::IDLE);
        self.state.store(idle.0, Ordering::Release);
    }

    /// Returns the word that a client watches for [`CLIENTS_TURN`].
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.state
    }

    #[inline]
    fn state(&self) -> CallState {
        // Acquire: pairs with the Release of the change, `post` or `renew` that handed the slot
        // over: the message is there.
        CallState(self.state.load(Ordering::Acquire))
    }

    #[inline]
    fn change(&self, from: CallState, to: CallState) -> Result<(), CallState> {
        // Acquire and Release: each change hands the payload over, or takes it, and pairs with the
        // change, `post` or `state` of the other side.
        let [came, failed] = [Ordering::AcqRel, Ordering::Acquire];
        self.state.compare_exchange(from.0, to.0, came, failed).map(drop).map_err(CallState)
    }

    /// Returns true if the client may use the slot.
    #[inline]
    pub fn is_clients(&self) -> bool {
        self.state().0 & CLIENTS_TURN != 0
    }

    /// Posts the request of `len` bytes that the client has written behind the slot; servers see it
    /// once this returns. `bell` is rung for the reply. The caller then rings for the server.
    ///
    /// The slot is the client's, [which may use it](Self::is_clients).
    #[inline]
    pub fn post(&self, len: u32, timeout_ns: u64, bell: Option<u32>) -> Ticket {
        let request = CallState(self.state.load(Ordering::Relaxed)).next_request();
        // Relaxed: published by the store of the state.
        self.len.store(len, Ordering::Relaxed);
        self.timeout.store(timeout_ns, Ordering::Relaxed);
        self.bell.store(bell.map_or(0, |bell| bell.wrapping_add(1)), Ordering::Relaxed);
        // Release: pairs with the Acquire in `state`. An exchange, as the caller rings behind it.
        self.state.swap(request.0, unless_weakened!("call-post", Ordering::Release));
        Ticket(request.0)
    }

    /// Returns the progress of the call.
    #[inline]
    pub fn progress(&self, ticket: Ticket) -> Progress {
        let state = self.state();
        if state.with(phase::REQUESTED).0 != ticket.0 {
            return Progress::Corrupt;
        }
        match state.phase() {
            phase::REPLIED => Progress::Replied,
            phase::REQUESTED => Progress::Requested,
            phase::LOST => Progress::Lost,
            _ => Progress::Corrupt,
        }
    }

    /// Takes a request, if there is one, as server number `server`: the payload is the server's
    /// until it [replies](Self::reply).
    #[inline]
    pub fn take(&self, mark: &CallMark, server: u32) -> Taken {
        // Relaxed: a hint; `take_requested` looks again.
        if CallState(self.state.load(Ordering::Relaxed)).phase() != phase::REQUESTED {
            return Taken::Nothing;
        }
        self.take_requested(mark, server)
    }

    #[inline]
    fn take_requested(&self, mark: &CallMark, server: u32) -> Taken {
        // Before the state: if the mark is unchanged when it is exchanged, no call has been taken
        // since. Acquire: pairs with the Release below: a server that finds a later call taken
        // finds it posted, too.
        let before = mark.0.load(unless_weakened!("call-take", Ordering::Acquire));
        let state = self.state();
        if state.phase() != phase::REQUESTED || before as u32 == state.0 {
            return Taken::Nothing;
        }
        let taken = u64::from(server) << 32 | u64::from(state.0);
        let (came, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        if mark.0.compare_exchange(before, taken, came, failed).is_err() {
            return Taken::Nothing;
        }
        if !cfg!(weaken = "call-mark") {
            // Pairs with the fence in `leave`: either the client sees the mark, or the look that
            // follows sees that it has left.
            fence_behind_rmw();
        }
        if self.state() == state { Taken::Call(state.ticket()) } else { self.settle_left(state) }
    }

    /// Resolves a race: the request that this server has marked was left at the same moment, or was
    /// taken by another server.
    #[cold]
    fn settle_left(&self, state: CallState) -> Taken {
        let abandoned = state.with(phase::ABANDONED);
        match self.change(abandoned, state.with(phase::IDLE)) {
            Ok(()) => Taken::Left,
            Err(_) => Taken::Nothing,
        }
    }

    /// Returns true if there is a request to take.
    #[inline]
    pub fn is_requested(&self, mark: &CallMark) -> bool {
        // Relaxed: a hint.
        let state = CallState(self.state.load(Ordering::Relaxed));
        state.phase() == phase::REQUESTED && !mark.is_of(state.ticket())
    }

    /// Replies with the `len` bytes that the server has written behind the slot.
    #[inline]
    pub fn reply(&self, ticket: Ticket, len: u32, code: u32) -> Delivered {
        let requested = CallState(ticket.0);
        // Relaxed: published by the change.
        self.len.store(len, Ordering::Relaxed);
        self.code.store(code, Ordering::Relaxed);
        if self.change(requested, requested.with(phase::REPLIED)).is_ok() {
            return Delivered::ToClient;
        }
        // The client has left. Any other word does not belong to this server.
        let _ = self.change(requested.with(phase::ABANDONED), requested.with(phase::IDLE));
        Delivered::CallerLeft
    }

    /// Leaves the call: the client does not wait for the reply any more.
    pub fn leave(&self, ticket: Ticket, mark: &CallMark) -> Left {
        let requested = CallState(ticket.0);
        if self.change(requested, requested.with(phase::ABANDONED)).is_err() {
            return Left::Over;
        }
        if !cfg!(weaken = "call-leave") {
            // Pairs with the fence in `take_requested`.
            fence_behind_rmw();
        }
        self.ends_untaken(ticket, mark)
    }

    /// Ends an abandoned call, if no server has it in hand. None takes it any more.
    fn ends_untaken(&self, ticket: Ticket, mark: &CallMark) -> Left {
        if mark.is_of(ticket) {
            return Left::Abandoned;
        }
        let abandoned = CallState(ticket.0).with(phase::ABANDONED);
        // Another process may have found the same, and done it.
        let _ = self.change(abandoned, abandoned.with(phase::IDLE));
        Left::Withdrawn
    }

    /// Ends the call that is under way here, if there is one, because its server is dead: the
    /// client, if it is there, learns that the call is lost.
    ///
    /// Any number of processes may do so. Not for a call that was posted to another server since.
    pub fn server_has_died(&self, ticket: Ticket) {
        let requested = CallState(ticket.0);
        for (from, to) in [(phase::REQUESTED, phase::LOST), (phase::ABANDONED, phase::IDLE)] {
            let _ = self.change(requested.with(from), requested.with(to));
        }
    }

    /// Returns the call that a server has in hand here, dead or alive, and the server's number.
    #[must_use]
    pub fn in_hand(&self, mark: &CallMark) -> Option<(Ticket, u32)> {
        let state = self.state();
        let under_way = matches!(state.phase(), phase::REQUESTED | phase::ABANDONED);
        let ticket = Some(state.ticket()).filter(|_| under_way)?;
        Some((ticket, mark.server_of(ticket)?))
    }

    /// Returns the call that is under way here, if there is one, for
    /// [`client_has_died`](Self::client_has_died).
    #[must_use]
    pub fn seen(&self) -> SeenCall {
        SeenCall(self.state())
    }

    /// Leaves the call that a dead client has posted. Returns true if the slot is free then.
    /// Otherwise a server has the call in hand, and learns that the client has left
    /// ([`Delivered::CallerLeft`]) when it ends the call.
    ///
    /// `seen` is from before the caller found that the slot belongs to the dead client: a call that
    /// a later client posts differs from it. Any number of processes may do so.
    #[must_use]
    pub fn client_has_died(&self, seen: SeenCall, mark: &CallMark) -> bool {
        let SeenCall(mut state) = if cfg!(weaken = "call-dead") { self.seen() } else { seen };
        let ticket = state.ticket();
        if state.phase() == phase::REQUESTED {
            match self.leave(ticket, mark) {
                Left::Over => state = self.state(),
                left => return left == Left::Withdrawn,
            }
        }
        // Of another number: another client has the slot.
        state.ticket() == ticket
            && (state.phase() != phase::ABANDONED
                || self.ends_untaken(ticket, mark) == Left::Withdrawn)
    }

    /// Returns the length of the message in the slot; at most `capacity`, even if the word is
    /// corrupt.
    #[inline]
    pub fn len(&self, capacity: u32) -> u32 {
        self.len.load(Ordering::Relaxed).min(capacity)
    }

    /// Returns the time that the client waits from the post of the request, in nanoseconds; `None`:
    /// for ever.
    #[inline]
    pub fn timeout_ns(&self) -> Option<u64> {
        Some(self.timeout.load(Ordering::Relaxed)).filter(|&ns| ns != 0)
    }

    /// Returns the doorbell of the thread that waits for the reply.
    #[inline]
    pub fn bell(&self) -> Option<u32> {
        self.bell.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Returns the server's code in a reply.
    #[inline]
    pub fn code(&self) -> u32 {
        self.code.load(Ordering::Relaxed)
    }
}
