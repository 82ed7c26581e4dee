//! When a thief may take the fiber in another worker's next slot.

/// How long a next slot must have looked the same before a thief may freeze and take it, in nanoseconds.
///
/// Longer than a hop between two fibers of one worker, so that a pair which talks stays together.
pub const SETTLED_NS: u64 = 3_000;

/// What a thief sees of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Address of the fiber in its next slot, 0 if none.
    pub fiber: usize,
    /// How many picks the victim has made, as it last stored it: two fibers that wake each other in
    /// turn show the same fiber at every look, but not the same count.
    pub picks: u64,
}

/// One thief's memory of one victim's next slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct NextSlotWatch {
    since: Option<(Sight, u64)>,
}

impl NextSlotWatch {
    /// A thief that has not looked yet.
    pub const fn new() -> Self {
        Self { since: None }
    }

    /// Takes note of a look at `now_ns` (the thief's clock) and says whether the fiber may be taken:
    /// it was seen at a look at least [`SETTLED_NS`] ago, and every look since saw the same.
    pub fn look(&mut self, sight: Sight, now_ns: u64) -> bool {
        match self.since {
            _ if sight.fiber == 0 => self.since = None,
            Some((seen, at)) if seen == sight => return now_ns.saturating_sub(at) >= SETTLED_NS,
            _ => self.since = Some((sight, now_ns)),
        }
        false
    }

    /// Forgets what was seen, after a theft or when the thief found other work.
    pub fn forget(&mut self) {
        self.since = None;
    }
}
