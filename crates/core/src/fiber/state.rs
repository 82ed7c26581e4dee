//! The run state of a started fiber: how an event changes it, and which party acts on the change.

use crate::atomic::{AtomicU32, Ordering, const_fn, unless_weakened};

/// Running, or runnable and in exactly one queue.
const ACTIVE: u32 = 0;
/// Suspended in `park`; an unpark makes it active.
const PARKED: u32 = 1;
/// Suspended in a wait on some object; the wake of that wait makes it active.
const WAITING: u32 = 2;
const PHASE: u32 = 3;
/// Kept unpark: it came while the fiber was not parked, so the next park returns at once.
const TOKEN: u32 = 4;
/// Kept wake: the wake of the published wait came before the fiber had suspended.
const WOKEN: u32 = 8;
/// Kept cancel: it came while the fiber was active, so its next suspension does not last.
const CANCELLED: u32 = 16;
/// Kept interrupt: as [`CANCELLED`].
const INTERRUPTED: u32 = 32;

/// An event that happens to a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A thread unparks the fiber.
    Unpark,
    /// The waker that claimed the fiber's wait wakes it.
    Wake,
    /// The fiber has to look why its suspension shall not last: its deadline has passed, or one of
    /// its cancel scopes has ended.
    Interrupt,
    /// The fiber has looked: an interrupt that has not yet ended a suspension does not end the next
    /// one. Applied by the fiber only, which looks for ended scopes before it suspends again.
    Looked,
    /// The fiber must unwind, out of its current or its next suspension.
    Cancel,
    /// The fiber suspends until an unpark.
    Park,
    /// The fiber suspends until the wake of the wait that it has published.
    Wait,
}

/// The caller's duty after [`RunState::apply`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect.
    None,
    /// Put the fiber into a queue: it was suspended, and this event alone ended that.
    Enqueue,
    /// The fiber is suspended.
    Suspended,
    /// The condition that the fiber wanted to wait for is already met: it goes on.
    Proceed,
    /// The fiber was cancelled before: it goes on, and unwinds if it may.
    Cancelled,
    /// The fiber was interrupted before: it goes on, and looks why.
    Interrupted,
}

/// The way a [`RunState`] is written.
pub trait Mode {
    /// True if other threads may write the word.
    const IS_SHARED: bool;
}

/// The mode of a started pinned fiber: only its worker writes, so plain loads and stores do.
///
/// Budget of a context switch: two loads and two stores, all on one line that the worker owns.
pub struct Plain;

impl Mode for Plain {
    const IS_SHARED: bool = false;
}

/// The mode of a migratable fiber: any thread may write, so each event is one read-modify-write.
///
/// Budget of a context switch: two RMWs, one of the waker, one of the thread that completes the
/// suspension.
pub struct ByExchange;

impl Mode for ByExchange {
    const IS_SHARED: bool = !cfg!(weaken = "run-state-shared");
}

/// The run state of a started fiber.
///
/// ```
/// use daiko_core::fiber::{Effect, Transition, Plain, RunState};
///
/// let state = RunState::new();
/// assert_eq!(state.apply::<Plain>(Transition::Unpark), Effect::None);
/// assert_eq!(state.apply::<Plain>(Transition::Park), Effect::Proceed);
/// assert_eq!(state.apply::<Plain>(Transition::Park), Effect::Suspended);
/// assert_eq!(state.apply::<Plain>(Transition::Unpark), Effect::Enqueue);
/// ```
#[derive(Debug)]
pub struct RunState(AtomicU32);

impl RunState {
    /// The bits of the phase, for debuggers.
    pub const PHASE: u64 = PHASE as u64;
    /// The phase of a fiber that is suspended until an unpark, for debuggers.
    pub const PARKED: u64 = PARKED as u64;

    const_fn! {
        /// Creates the state of an active fiber without a token.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            RunState(AtomicU32::new(ACTIVE))
        }
    }

    /// Resets the word for a fiber that becomes active for the first time.
    ///
    /// Only while no other thread can reach the fiber's run state: before its owner word names a
    /// worker.
    #[inline]
    pub fn reset(&self) {
        self.0.store(ACTIVE, Ordering::Relaxed);
    }

    /// Returns the event by which the fiber has suspended, if it has.
    #[inline]
    pub fn suspension(&self) -> Option<Transition> {
        match self.0.load(Ordering::Relaxed) & PHASE {
            ACTIVE => None,
            PARKED => Some(Transition::Park),
            _ => Some(Transition::Wait),
        }
    }

    /// Applies `event` in mode `M`, which must be the fiber's, and returns the caller's duty. The
    /// transition table, the same for both modes:
    ///
    /// | event  | ACTIVE | PARKED | WAITING |
    /// |--------|--------|--------|---------|
    /// | Unpark | + TOKEN | ACTIVE, enqueue | + TOKEN |
    /// | Wake   | + WOKEN | never | ACTIVE, enqueue |
    /// | Interrupt | + INTERRUPTED | ACTIVE, enqueue | ACTIVE, enqueue |
    /// | Looked | - INTERRUPTED | never | never |
    /// | Cancel | + CANCELLED | ACTIVE, enqueue | ACTIVE, enqueue |
    /// | Park   | TOKEN ? - TOKEN, proceed : PARKED, suspended | never | never |
    /// | Wait   | WOKEN ? - WOKEN, proceed : WAITING, suspended | never | never |
    ///
    /// If Park or Wait would suspend the fiber, but CANCELLED or else INTERRUPTED is set, the bit
    /// is removed and the effect is `Cancelled` or `Interrupted`.
    #[inline]
    pub fn apply<M: Mode>(&self, event: Transition) -> Effect {
        // Relaxed: the exchange decides, or only this thread writes the word, which is atomic
        // because other threads may look at it.
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            let phase = state & PHASE;
            let (next, effect) = match event {
                Transition::Unpark if phase == PARKED => (state & !PHASE, Effect::Enqueue),
                Transition::Unpark => (state | TOKEN, Effect::None),
                Transition::Wake if phase == WAITING => (state & !PHASE, Effect::Enqueue),
                Transition::Wake => (state | WOKEN, Effect::None),
                Transition::Looked => (state & !INTERRUPTED, Effect::None),
                Transition::Interrupt if phase == ACTIVE => (state | INTERRUPTED, Effect::None),
                Transition::Cancel if phase == ACTIVE => (state | CANCELLED, Effect::None),
                Transition::Interrupt | Transition::Cancel => (state & !PHASE, Effect::Enqueue),
                Transition::Park if state & TOKEN != 0 => (state & !TOKEN, Effect::Proceed),
                Transition::Wait if state & WOKEN != 0 => (state & !WOKEN, Effect::Proceed),
                Transition::Park | Transition::Wait if state & CANCELLED != 0 => {
                    (state & !CANCELLED, Effect::Cancelled)
                }
                Transition::Park | Transition::Wait if state & INTERRUPTED != 0 => {
                    (state & !INTERRUPTED, Effect::Interrupted)
                }
                Transition::Park => (state | PARKED, Effect::Suspended),
                Transition::Wait => (state | WAITING, Effect::Suspended),
            };
            if !M::IS_SHARED {
                self.0.store(next, Ordering::Relaxed);
                return effect;
            }
            // AcqRel, both halves paired within this function. The Release half of a suspension
            // publishes the saved stack to the Acquire half of the unpark, wake or cancel that
            // enqueues the fiber. The Release half of an unpark or wake publishes the writes before
            // it to the Acquire half of the park or wait that proceeds.
            let success = unless_weakened!("run-state", Ordering::AcqRel);
            match self.0.compare_exchange_weak(state, next, success, Ordering::Relaxed) {
                Ok(_) => return effect,
                Err(seen) => state = seen,
            }
        }
    }

    /// Returns true if the fiber is suspended. The answer may be out of date at once.
    pub fn is_suspended(&self) -> bool {
        self.0.load(Ordering::Relaxed) & PHASE != ACTIVE
    }

    /// Returns true if the fiber is suspended until an unpark. The answer may be out of date at
    /// once.
    pub fn is_parked(&self) -> bool {
        self.0.load(Ordering::Relaxed) & PHASE == PARKED
    }

    /// Returns true if `event`, a park or a wait, would not suspend the fiber.
    #[inline]
    pub fn would_proceed(&self, event: Transition) -> bool {
        let kept = if event == Transition::Park { TOKEN } else { WOKEN };
        self.0.load(Ordering::Relaxed) & (kept | CANCELLED | INTERRUPTED) != 0
    }

    /// Removes a kept cancel; returns true if there was one. `M` is the mode of the fiber. Only the
    /// fiber, which is active.
    pub fn forget_cancel<M: Mode>(&self) -> bool {
        // Relaxed: no data is passed on by a cancel.
        let state = match M::IS_SHARED {
            true => self.0.fetch_and(!CANCELLED, Ordering::Relaxed),
            false => {
                let state = self.0.load(Ordering::Relaxed);
                self.0.store(state & !CANCELLED, Ordering::Relaxed);
                state
            }
        };
        state & CANCELLED != 0
    }

    /// Returns true if a cancel has come while the fiber was active.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CANCELLED != 0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn after(events: &[Transition]) -> Vec<Effect> {
        let (plain, shared) = (RunState::new(), RunState::new());
        events
            .iter()
            .map(|&event| {
                let would_proceed = plain.would_proceed(event);
                let effect = plain.apply::<Plain>(event);
                if matches!(event, Transition::Park | Transition::Wait) {
                    assert_eq!(would_proceed, effect != Effect::Suspended, "{event:?}");
                }
                assert_eq!(
                    effect,
                    shared.apply::<ByExchange>(event),
                    "the modes differ at {event:?}"
                );
                effect
            })
            .collect()
    }

    #[test]
    fn a_forgotten_cancel_ends_no_suspension() {
        fn forget<M: Mode>() {
            let state = RunState::new();
            assert!(!state.forget_cancel::<M>());
            let _ = state.apply::<M>(Transition::Unpark);
            let _ = state.apply::<M>(Transition::Cancel);
            assert!(state.forget_cancel::<M>() && !state.is_cancelled());
            assert_eq!(state.apply::<M>(Transition::Park), Effect::Proceed, "the token stays");
            assert_eq!(state.apply::<M>(Transition::Park), Effect::Suspended);
        }
        forget::<Plain>();
        forget::<ByExchange>();
    }

    #[test]
    fn an_unpark_before_the_park_is_kept_and_is_one() {
        use Effect::*;
        let events = [
            Transition::Unpark,
            Transition::Unpark,
            Transition::Park,
            Transition::Park,
            Transition::Unpark,
        ];
        assert_eq!(after(&events), [None, None, Proceed, Suspended, Enqueue]);
    }

    #[test]
    fn an_unpark_does_not_end_a_wait_but_is_kept() {
        use Effect::*;
        let events = [Transition::Wait, Transition::Unpark, Transition::Wake, Transition::Park];
        assert_eq!(after(&events), [Suspended, None, Enqueue, Proceed]);
    }

    #[test]
    fn a_wake_that_comes_first_lets_the_wait_proceed() {
        use Effect::*;
        let events = [Transition::Wake, Transition::Wait, Transition::Wait];
        assert_eq!(after(&events), [None, Proceed, Suspended]);
    }

    #[test]
    fn a_cancel_or_interrupt_ends_a_wait_and_the_late_wake_is_kept() {
        use Effect::*;
        for event in [Transition::Cancel, Transition::Interrupt] {
            let events = [Transition::Wait, event, Transition::Wake, Transition::Wait];
            assert_eq!(after(&events), [Suspended, Enqueue, None, Proceed]);
        }
    }

    #[test]
    fn a_cancel_of_an_active_fiber_is_kept_for_one_suspension() {
        use Effect::*;
        for suspension in [Transition::Park, Transition::Wait] {
            let events = [Transition::Cancel, Transition::Cancel, suspension, suspension];
            assert_eq!(after(&events), [None, None, Cancelled, Suspended]);
        }
    }

    #[test]
    fn a_cancel_of_a_suspended_fiber_ends_one_suspension() {
        use Effect::*;
        for suspension in [Transition::Park, Transition::Wait] {
            let events = [suspension, Transition::Cancel, suspension];
            assert_eq!(after(&events), [Suspended, Enqueue, Suspended]);
        }
    }

    #[test]
    fn a_cancel_is_kept_as_the_fiber_looks() {
        use Effect::*;
        let events =
            [Transition::Cancel, Transition::Interrupt, Transition::Looked, Transition::Wait];
        assert_eq!(after(&events), [None, None, None, Cancelled]);
    }

    #[test]
    fn an_interrupt_of_an_active_fiber_is_kept_until_it_has_looked() {
        use Effect::*;
        let events = [Transition::Interrupt, Transition::Wait, Transition::Wait];
        assert_eq!(after(&events), [None, Interrupted, Suspended]);
        let events = [Transition::Interrupt, Transition::Looked, Transition::Wait];
        assert_eq!(after(&events), [None, None, Suspended]);
    }

    #[test]
    fn a_waiting_fiber_is_suspended_and_a_parking_fiber_is_parked_as_well() {
        let states = [Transition::Unpark, Transition::Wait, Transition::Park].map(|event| {
            let state = RunState::new();
            let _ = state.apply::<Plain>(event);
            (state.is_suspended(), state.is_parked())
        });
        assert_eq!(states, [(false, false), (true, false), (true, true)]);
    }

    #[test]
    fn a_kept_unpark_goes_before_a_cancel() {
        use Effect::*;
        let events = [
            Transition::Wake,
            Transition::Interrupt,
            Transition::Cancel,
            Transition::Wait,
            Transition::Wait,
        ];
        assert_eq!(after(&events), [None, None, None, Proceed, Cancelled]);
    }
}
