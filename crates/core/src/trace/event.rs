//! Events, and their form in a ring.

/// An event in the form in which rings hold it.
///
/// ```text
/// word 0: bits 63 to 8   the time, in ticks of the time stamp counter, modulo 2^56
///         bits 7 to 0    the kind
/// word 1: bits 63 to 56  a number
///         bits 55 to 0   an address
/// ```
///
/// A piece of a name has text in place of time and address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEvent(pub [u64; 2]);

/// The reason for which a fiber has left its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It was the agent.
    Agent,
    /// It waits. The kind is that of the wait's target; 0: not known.
    Waits(u8),
    /// It goes on later.
    Yields,
    /// It has ended.
    Ended,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The worker leaves a fiber, or its agent, and goes on with the fiber at the address; 0: its
    /// agent.
    Switch {
        /// The fiber that runs now.
        to: u64,
        /// The reason of the one before.
        left: Departure,
    },
    /// The worker is about to run a new fiber, at this address, for the first time. The place of
    /// its spawn follows, and the pieces of its name.
    Start(u64),
    /// The place of the spawn of the fiber that has just started.
    SpawnedAt(u64),
    /// A piece of its name, filled up with zeros.
    Name([u8; Event::NAME_PIECE]),
    /// The fiber at the address becomes runnable, or has been spawned, by the fiber or agent that
    /// runs.
    Wake(u64),
    /// The thread of the worker goes to sleep.
    Sleep,
    /// The thread of the worker is awake again.
    Awake,
    /// The agent has polled its sources, and has found something to run.
    PollHit,
    /// The worker has taken work of the worker with this index.
    Steal(u64),
}

const SWITCH: u8 = 1;
const START: u8 = 2;
const SPAWNED_AT: u8 = 3;
const NAME: u8 = 4;
const WAKE: u8 = 5;
const SLEEP: u8 = 6;
const AWAKE: u8 = 7;
const POLL_HIT: u8 = 8;
const STEAL: u8 = 9;

const AGENT: u8 = 255;
const YIELDS: u8 = 254;
const ENDED: u8 = 253;

const ADDRESS: u64 = (1 << 56) - 1;

impl Departure {
    const fn number(self) -> u8 {
        match self {
            Departure::Agent => AGENT,
            Departure::Yields => YIELDS,
            Departure::Ended => ENDED,
            Departure::Waits(kind) => kind,
        }
    }

    const fn of(number: u8) -> Self {
        match number {
            AGENT => Departure::Agent,
            YIELDS => Departure::Yields,
            ENDED => Departure::Ended,
            kind => Departure::Waits(kind),
        }
    }
}

impl Event {
    /// Number of bytes of a piece of a name.
    pub const NAME_PIECE: usize = 15;

    /// Returns its form in a ring. A piece of a name has no time.
    #[inline(always)]
    pub fn raw(self, ticks: u64) -> RawEvent {
        let (kind, number, address) = match self {
            Event::Switch { to, left } => (SWITCH, left.number(), to),
            Event::Start(fiber) => (START, 0, fiber),
            Event::SpawnedAt(place) => (SPAWNED_AT, 0, place),
            Event::Wake(fiber) => (WAKE, 0, fiber),
            Event::Sleep => (SLEEP, 0, 0),
            Event::Awake => (AWAKE, 0, 0),
            Event::PollHit => (POLL_HIT, 0, 0),
            Event::Steal(victim) => (STEAL, 0, victim),
            Event::Name(piece) => {
                let mut bytes = [NAME; 16];
                bytes[1..].copy_from_slice(&piece);
                let all = u128::from_le_bytes(bytes);
                return RawEvent([all as u64, (all >> 64) as u64]);
            }
        };
        RawEvent([ticks << 8 | u64::from(kind), u64::from(number) << 56 | address & ADDRESS])
    }
}

impl RawEvent {
    /// Returns the event, and its time modulo 2^56. `None`: it is none that there can be.
    pub fn parse(self) -> Option<(Event, u64)> {
        let RawEvent([head, word]) = self;
        let address = word & ADDRESS;
        let event = match head as u8 {
            SWITCH => Event::Switch { to: address, left: Departure::of((word >> 56) as u8) },
            START => Event::Start(address),
            SPAWNED_AT => Event::SpawnedAt(address),
            NAME => {
                let all = u128::from(word) << 64 | u128::from(head);
                let mut piece = [0; Event::NAME_PIECE];
                piece.copy_from_slice(&all.to_le_bytes()[1..]);
                Event::Name(piece)
            }
            WAKE => Event::Wake(address),
            SLEEP => Event::Sleep,
            AWAKE => Event::Awake,
            POLL_HIT => Event::PollHit,
            STEAL => Event::Steal(address),
            _ => return None,
        };
        Some((event, head >> 8))
    }
}
