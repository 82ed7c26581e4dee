//! A meeting of a number of parties, again and again, some of which die.

use super::{Holder, Seat, SeenWord};
use crate::atomic::{AtomicU64, Ordering, const_fn, fence, unless_weakened};

/// A barrier of 16 bytes, and 16 more for each [`BarrierPlace`], which the caller keeps behind it.
///
/// An arrival is never taken back: a party that has arrived and dies, or does not wait any longer,
/// has arrived.
///
/// Budget: no RMW, but one for each round, by the party that finds it complete. A party stores its
/// arrival, passes a fence, and loads the arrivals of all.
///
/// ```
/// use daiko_core::robust::{BarrierLook, BarrierPlace, Holder, RobustBarrier};
///
/// let [one, other] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let (barrier, places) = (RobustBarrier::new(), [const { BarrierPlace::new() }; 2]);
/// for (place, party) in places.iter().zip([one, other]) {
///     let _ = place.seat().take(party, |_| false);
///     assert_eq!(barrier.join(place), None);
/// }
/// let round = barrier.arrive(&places[0]);
/// assert!(matches!(barrier.look(&places, round, |_| false), BarrierLook::Missing(_)));
/// assert_eq!(barrier.arrive(&places[1]), round);
/// assert_eq!(barrier.look(&places, round, |_| false), BarrierLook::Complete { first: true });
/// // The other party is killed.
/// let next = barrier.arrive(&places[0]);
/// assert_eq!(barrier.look(&places, next, |who| who == other), BarrierLook::Died(1));
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RobustBarrier {
    /// Number of complete rounds. Raised by a party that finds the next one complete.
    rounds: AtomicU64,
    /// Number of parties that have left. Raised by each, once it has left its seat.
    departures: AtomicU64,
}

/// The place of one party.
#[repr(C)]
#[derive(Debug)]
pub struct BarrierPlace {
    seat: Seat,
    /// An [`Arrivals`]. Stored by the attachment that has the seat.
    arrivals: AtomicU64,
}

/// The number of rounds at which a party has arrived, and whether there was ever one in its place.
///
/// ```text
/// 63      1    0
/// | rounds | HAD |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrivals(u64);

impl Arrivals {
    const HAD: u64 = 1;

    const fn at(rounds: u64) -> Arrivals {
        Arrivals(rounds << 1 | Self::HAD)
    }

    const fn rounds(self) -> u64 {
        self.0 >> 1
    }

    const fn had_party(self) -> bool {
        self.0 & Self::HAD != 0
    }
}

/// The state of a round.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierLook {
    /// All parties have arrived. `first`: the caller is the one that has found it so, and rings.
    Complete {
        /// True for one caller of a round, unless that has died.
        first: bool,
    },
    /// A party has not arrived yet: wait until the barrier
    /// [has changed](RobustBarrier::has_changed), or a process has died.
    Missing(BarrierSeen),
    /// The party in this place died before it arrived.
    Died(usize),
    /// The party in this place left before it arrived.
    Left(usize),
}

/// The words of a barrier at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierSeen {
    rounds: SeenWord,
    departures: SeenWord,
}

impl BarrierPlace {
    const_fn! {
        /// Creates a place without a party.
        pub const fn new() -> Self {
            Self { seat: Seat::new(), arrivals: AtomicU64::new(0) }
        }
    }

    /// Returns the seat of the party.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    fn arrivals(&self) -> Arrivals {
        // Acquire: pairs with the Release in `arrive`.
        let acquire = unless_weakened!("robust-barrier-look", Ordering::Acquire);
        Arrivals(self.arrivals.load(acquire))
    }

    /// Returns the state of the place in `round`; `None`: its party has arrived.
    fn missing(&self, round: u64, is_dead: impl Fn(Holder) -> bool) -> Option<MissingParty> {
        let has_arrived = || self.arrivals().rounds() > round;
        if has_arrived() {
            return None;
        }
        let missing = match self.seat.holder() {
            Some(holder) if is_dead(holder) => MissingParty::Died,
            Some(_) => return Some(MissingParty::Late),
            None if self.arrivals().had_party() => MissingParty::Left,
            None => return Some(MissingParty::Late),
        };
        // It may have arrived since, and then left.
        (!has_arrived()).then_some(missing)
    }
}

/// A party that has not arrived.
enum MissingParty {
    Late,
    Died,
    Left,
}

impl RobustBarrier {
    const_fn! {
        /// Creates a barrier at which no party has arrived.
        pub const fn new() -> Self {
            Self { rounds: AtomicU64::new(0), departures: AtomicU64::new(0) }
        }
    }

    fn rounds(&self) -> u64 {
        // Acquire: pairs with the Release in `complete`.
        self.rounds.load(Ordering::Acquire)
    }

    /// Continues in a place, for the attachment that has its seat. Returns the round at which an
    /// earlier party of that place has arrived, if it is not complete yet.
    pub fn join(&self, place: &BarrierPlace) -> Option<u64> {
        let (round, arrived) = (self.rounds(), place.arrivals().rounds());
        // Relaxed: the seat orders it for the next party; a look that does not see it takes the
        // party for late.
        place.arrivals.store(Arrivals::at(arrived).0, Ordering::Relaxed);
        (arrived > round).then_some(round)
    }

    /// Arrives, for the attachment that has the seat. Returns the round, at which the caller
    /// [looks](Self::look) now.
    pub fn arrive(&self, place: &BarrierPlace) -> u64 {
        let round = self.rounds();
        // Release: pairs with the Acquire in `BarrierPlace::arrivals`.
        place.arrivals.store(Arrivals::at(round.wrapping_add(1)).0, Ordering::Release);
        if !cfg!(weaken = "robust-barrier-arrive") {
            // Pairs with itself: of two parties that arrive last, one sees the arrival of the
            // other.
            fence(Ordering::SeqCst);
        }
        round
    }

    /// Looks whether `round` is complete. A round that is so is recorded; one party that the caller
    /// finds dead or gone before it has arrived is named, even if further parties are late.
    pub fn look(
        &self,
        places: &[BarrierPlace],
        round: u64,
        is_dead: impl Fn(Holder) -> bool,
    ) -> BarrierLook {
        // Acquire: pairs with the Release in `depart`. Before the looks: a later departure differs.
        let departures = SeenWord(self.departures.load(Ordering::Acquire));
        let rounds = self.rounds();
        if rounds != round {
            return BarrierLook::Complete { first: false };
        }
        let mut late = false;
        for (at, place) in places.iter().enumerate() {
            match place.missing(round, &is_dead) {
                None => {}
                Some(MissingParty::Late) => late = true,
                Some(gone) if self.rounds() == round => {
                    return match gone {
                        MissingParty::Died => BarrierLook::Died(at),
                        _ => BarrierLook::Left(at),
                    };
                }
                Some(_) => return BarrierLook::Complete { first: false },
            }
        }
        match late {
            true => BarrierLook::Missing(BarrierSeen { rounds: SeenWord(rounds), departures }),
            false => BarrierLook::Complete { first: self.complete(round) },
        }
    }

    fn complete(&self, round: u64) -> bool {
        // Release: pairs with the Acquire in `rounds`: all parties see the arrivals that
        // the caller has seen.
        let release = unless_weakened!("robust-barrier-complete", Ordering::Release);
        let next = round.wrapping_add(1);
        self.rounds.compare_exchange(round, next, release, Ordering::Relaxed).is_ok()
    }

    /// Returns true if it differs from the state that was `seen`.
    #[inline]
    pub fn has_changed(&self, seen: BarrierSeen) -> bool {
        // Relaxed: a further look acquires.
        self.rounds.load(Ordering::Relaxed) != seen.rounds.0
            || self.departures.load(Ordering::Relaxed) != seen.departures.0
    }

    /// Records that a party has left its seat. The caller rings.
    pub fn depart(&self) {
        // Release: pairs with the Acquire in `look`: the seat is found free.
        self.departures.fetch_add(1, unless_weakened!("robust-barrier-depart", Ordering::Release));
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<RobustBarrier>() == 16 && size_of::<BarrierPlace>() == 16);

impl Default for RobustBarrier {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for BarrierPlace {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl RobustBarrier {
    /// Stores any words, as a peer may.
    pub(super) fn spoil(&self, rounds: u64, departures: u64) {
        self.rounds.store(rounds, Ordering::Relaxed);
        self.departures.store(departures, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl BarrierPlace {
    /// Stores any words, as a peer may.
    pub(super) fn spoil(&self, seat: u64, arrivals: u64) {
        self.seat.spoil(seat);
        self.arrivals.store(arrivals, Ordering::Relaxed);
    }
}
