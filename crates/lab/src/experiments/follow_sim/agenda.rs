//! The queue of the simulator: a tournament tree over the sources of events.

/// Time of a source without an event. All event times are smaller. A key holds the time in its
/// upper 56 bits, which limits a simulation to 2.28 years.
pub(super) const NEVER: u64 = (1 << (64 - SOURCE_BITS)) - 1;
const SOURCE_BITS: u32 = 8;
const SOURCES: usize = 1 << SOURCE_BITS;

/// The next event of each source. Of events at the same time, that of the lowest source is first.
pub(super) struct Agenda {
    /// A binary tree in an array. Each node holds time and source in one word; node 1 is the root,
    /// and the leaves begin at index `leaves`.
    nodes: Box<[u64; 2 * SOURCES]>,
    leaves: usize,
}

impl Agenda {
    /// An agenda for this many sources, at most 256, without events.
    pub(super) fn new(sources: usize) -> Self {
        assert!((1..=SOURCES).contains(&sources), "{sources} sources");
        let mut agenda =
            Self { nodes: Box::new([u64::MAX; 2 * SOURCES]), leaves: sources.next_power_of_two() };
        (0..sources).for_each(|source| agenda.set(source, NEVER));
        agenda
    }

    /// Sets the time of the next event of `source`.
    #[inline]
    pub(super) fn set(&mut self, source: usize, time: u64) {
        const MASK: usize = 2 * SOURCES - 1;
        let mut node = self.leaves + source;
        let mut key = time << SOURCE_BITS | source as u64;
        self.nodes[node & MASK] = key;
        while node > 1 {
            key = key.min(self.nodes[(node ^ 1) & MASK]);
            node >>= 1;
            self.nodes[node & MASK] = key;
        }
    }

    /// Returns time and source of the next event.
    #[inline]
    pub(super) fn next(&self) -> (u64, usize) {
        let key = self.nodes[1];
        (key >> SOURCE_BITS, key as usize % SOURCES)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_next_event_is_the_earliest(
            sources in 1usize..=200,
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0u64..50), 1..100),
        ) {
            let (mut agenda, mut times) = (Agenda::new(sources), vec![NEVER; sources]);
            for (source, time) in steps {
                let source = source.index(sources);
                agenda.set(source, time);
                times[source] = time;
                let first = times.iter().zip(0..).min().map(|(time, source)| (*time, source));
                prop_assert_eq!(Some(agenda.next()), first);
            }
        }
    }
}
