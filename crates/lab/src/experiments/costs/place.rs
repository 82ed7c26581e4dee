//! How long a runtime decides where a woken migratable fiber goes that waits for its interrupt.

use std::hint::black_box;

use daiko_core::place::{BOUND, Follow, Kind, Target, wake};

use super::{calls::counted, laps::SELDOM};
use crate::kit::{Effort, Failure, Sample, SplitMix64};

/// Decisions in a round: beside as many, counting rounds is nothing.
const ASKED: u64 = 128;
/// Workers, each of which wakes in turn, and has the interrupts of some migratable fibers.
const WORKERS: u64 = 4;

/// A migratable fiber: what is remembered of it, and where it is.
#[derive(Clone, Copy)]
struct Migratable {
    follow: Follow,
    at: u16,
}

/// A wake-up: whose agent sees it, and where its interrupt was.
#[derive(Clone, Copy)]
struct Wake {
    agent: u16,
    interrupt: u16,
}

/// Movers that are woken by agents anywhere, their interrupts following some of them.
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

/// Whether the migratable fiber has stayed, or gone to the agent.
fn decide(migratable: &mut Migratable, by: Wake) -> bool {
    let previous = migratable.at;
    migratable.at = migratable.follow.place(by.interrupt, previous, BOUND, || {
        match wake(Kind::Migratable, previous.into(), Some(by.agent.into()), true) {
            Target::LifoSlot => by.agent,
            Target::Inbox(worker) => worker as u16,
        }
    });
    migratable.at == previous || migratable.at == by.agent
}

#[cfg(test)]
mod tests {
    use super::{super::laps, *};
    use std::time::Duration;

    #[test]
    fn as_many_decisions_are_timed_as_were_asked_for() {
        let effort = Effort { rounds: 3, limit: Duration::from_secs(60) };
        let sample = place_follow(effort).expect("all go somewhere");
        assert_eq!(laps::count(&sample), 3 * ASKED);
    }
}
