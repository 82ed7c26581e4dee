//! The order in which a receiver serves several lanes.

/// A round over several lanes, one for each sender, which goes on behind the lane that had a
/// message last. So the first message of a lane waits for at most one message of each other lane.
/// Private to the receiver.
///
/// Budget: one look for each lane, until one has a message.
///
/// ```
/// use daiko_core::robust::Round;
///
/// let (mut round, lanes) = (Round::default(), ["a", "", "c"]);
/// let mut first = || round.find(3, |lane| lanes[lane].chars().next());
/// assert_eq!([first(), first(), first()], [Some('a'), Some('c'), Some('a')]);
/// ```
#[derive(Debug, Default)]
pub struct Round {
    next: usize,
}

impl Round {
    /// Creates a round that begins at lane `next`.
    pub const fn at(next: usize) -> Self {
        Self { next }
    }

    /// Returns the lane at which it goes on.
    pub const fn next(&self) -> usize {
        self.next
    }

    /// Calls `ask` for each of `lanes` lanes at most once, and returns the first answer that is not
    /// `None`.
    pub fn find<T>(&mut self, lanes: usize, mut ask: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let next = self.next.min(lanes);
        for lane in (next..lanes).chain(0..next) {
            if let Some(found) = ask(lane) {
                self.next = lane + 1;
                return Some(found);
            }
        }
        None
    }
}
