//! The rule by which a thief may take the fiber in another worker's LIFO slot.

/// Time for which a LIFO slot must have looked the same before a thief may freeze and take it, in
/// nanoseconds.
///
/// Longer than a context switch between two fibers of one worker, so that two fibers that exchange
/// messages stay together.
pub const SETTLED_NS: u64 = 3_000;

/// A thief's observation of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSnapshot {
    /// Address of the fiber in its LIFO slot, 0 if none.
    pub fiber: usize,
    /// Number of picks of the victim, as it last stored it: two fibers that wake each other in turn
    /// show the same fiber at every look, but not the same count.
    pub picks: u64,
}

/// One thief's record of one victim's LIFO slot (steal history).
#[derive(Clone, Copy, Debug, Default)]
pub struct LifoSlotWatch {
    since: Option<(SlotSnapshot, u64)>,
}

impl LifoSlotWatch {
    /// Creates the record of a thief that has not looked yet.
    pub const fn new() -> Self {
        Self { since: None }
    }

    /// Records a look at `now_ns` (the thief's clock). Returns true if the fiber may be taken: it
    /// was seen at a look at least [`SETTLED_NS`] ago, and every look since saw the same.
    pub fn look(&mut self, snapshot: SlotSnapshot, now_ns: u64) -> bool {
        match self.since {
            _ if snapshot.fiber == 0 => self.since = None,
            Some((seen, at)) if seen == snapshot => return now_ns.saturating_sub(at) >= SETTLED_NS,
            _ => self.since = Some((snapshot, now_ns)),
        }
        false
    }

    /// Clears the record, after a theft or when the thief found other work.
    pub fn forget(&mut self) {
        self.since = None;
    }
}
