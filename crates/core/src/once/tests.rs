use super::*;
use crate::lock::testing::Tester;

const BY: Tester = Tester(1);
const ME: NonZeroU64 = NonZeroU64::MIN;
const OTHER: NonZeroU64 = NonZeroU64::MAX;

const PURPOSES: [Purpose; 4] = [
    Purpose { runs: true, despite_poison: false },
    Purpose { runs: true, despite_poison: true },
    Purpose { runs: false, despite_poison: false },
    Purpose { runs: false, despite_poison: true },
];

/// Returns the next action for each purpose; a run that begins is ended by `end`.
fn begins(once: &RawOnce<u32>, caller: NonZeroU64, end: End) -> [Begin; 4] {
    PURPOSES.map(|purpose| {
        let begin = once.begin(&BY, caller, purpose);
        if let Begin::Run { .. } = begin {
            once.end(&BY, end).for_each(drop);
        }
        begin
    })
}

#[test]
fn the_table_holds() {
    let once = RawOnce::new();
    let runs = |was_poisoned| Begin::Run { was_poisoned };
    assert_eq!(
        begins(&once, ME, End::Undone),
        [runs(false), runs(false), Begin::Wait, Begin::Wait]
    );
    assert_eq!(once.begin(&BY, ME, PURPOSES[0]), runs(false));
    assert_eq!(begins(&once, ME, End::Undone), [Begin::Itself; 4]);
    assert_eq!(begins(&once, OTHER, End::Undone), [Begin::Wait; 4]);
    once.end(&BY, End::Poisoned).for_each(drop);
    let poisoned = [Begin::Poisoned, runs(true), Begin::Poisoned, Begin::Wait];
    assert_eq!(begins(&once, ME, End::Poisoned), poisoned);
    assert!(!once.is_done());
    assert_eq!(once.begin(&BY, ME, PURPOSES[1]), runs(true));
    once.end(&BY, End::Done).for_each(drop);
    assert_eq!(begins(&once, ME, End::Undone), [Begin::Done; 4]);
    assert!(once.is_done());
}

#[test]
fn a_waiter_begins_anew_after_a_failure() {
    let (once, nodes) = (RawOnce::new(), [7, 8, 9].map(Node::new));
    assert_eq!(once.begin(&BY, ME, PURPOSES[0]), Begin::Run { was_poisoned: false });
    for node in &nodes {
        // SAFETY: in no queue, and claimed or unlinked below.
        assert!(unsafe { once.wait(&BY, NonNull::from(node), OTHER, PURPOSES[0]) });
    }
    // SAFETY: alive, and queued here.
    assert_eq!(unsafe { once.leave(&BY, NonNull::from(&nodes[1])) }, Unlinked::Mine);
    assert_eq!(once.end(&BY, End::Undone).collect::<Vec<_>>(), [7, 9]);
    // SAFETY: in no queue.
    assert!(!unsafe { once.wait(&BY, NonNull::from(&nodes[0]), OTHER, PURPOSES[0]) }, "it runs");
}
