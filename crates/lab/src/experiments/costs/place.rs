//! Time that a runtime takes to decide where a woken migratable fiber continues that waited for its
//! interrupt.

use std::hint::black_box;

use daiko_core::place::{BOUND, Follow, Mobility, WakeTarget, wake};

use super::calls::counted;
use super::laps::SELDOM;
use crate::kit::{Effort, Failure, Sample, SplitMix64};

/// Decisions in a round. With this many, the cost of counting rounds is negligible.
const ASKED: u64 = 128;
/// Workers. Each of them wakes fibers in turn and receives the interrupts of some.
const WORKERS: u64 = 4;

/// A migratable fiber: its placement history and its worker.
#[derive(Clone, Copy)]
struct Migratable {
    follow: Follow,
    at: u16,
}

/// A wake-up: the worker of the agent that sees it, and the worker that got the interrupt.
#[derive(Clone, Copy)]
struct Wake {
    agent: u16,
    interrupt: u16,
}

/// Measures placement decisions of fibers that agents of any worker wake, where interrupts follow
/// some of the fibers.
pub(super) fn place_follow(effort: Effort) -> Result<Sample, Failure> {
    let mut random = SplitMix64(1);
    let mut worker = || random.below(WORKERS) as u16;
    let wakes: Vec<_> = (0..ASKED).map(|_| Wake { agent: worker(), interrupt: worker() }).collect();
    let mut migratable = [Migratable { follow: Follow::new(), at: 0 }; 16];
    counted(effort, SELDOM, ASKED, "wake-ups that went somewhere", || {
        let decided = wakes.iter().enumerate();
        let decided =
            decided.map(|(index, wake)| decide(&mut migratable[index % 16], black_box(*wake)));
        Ok(decided.map(u64::from).sum())
    })
}

/// Decides where the migratable fiber goes. Returns whether it stayed or went to the agent's
/// worker.
fn decide(migratable: &mut Migratable, by: Wake) -> bool {
    let previous = migratable.at;
    migratable.at = migratable.follow.place(by.interrupt, previous, BOUND, || {
        match wake(Mobility::Migratable, previous.into(), Some(by.agent.into()), true) {
            WakeTarget::LifoSlot => by.agent,
            WakeTarget::Inbox(worker) => worker as u16,
        }
    });
    migratable.at == previous || migratable.at == by.agent
}

#[cfg(test)]
mod tests {
    use super::super::laps;
    use super::*;
    use std::time::Duration;

    #[test]
    fn as_many_decisions_are_timed_as_were_asked_for() {
        let effort = Effort { rounds: 3, limit: Duration::from_secs(60) };
        let sample = place_follow(effort).expect("all go somewhere");
        assert_eq!(laps::count(&sample), 3 * ASKED);
    }
}
