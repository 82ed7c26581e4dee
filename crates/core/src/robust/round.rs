//! Whose turn it is among several lanes.

/// Who receives from several lanes, one for each who sends, goes round: behind the lane that had something last.
/// So a message that is the first of its lane waits for one of each other lane at most. The receiver's own.
///
/// Budget: one look for each lane, until one has something.
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
    /// Asks each of `lanes` lanes once, and has what the first answers that has something.
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
