//! How long a runtime decides: where a woken mover goes that waits for its interrupt, and what runs next beside a sibling.

use std::{
    collections::VecDeque,
    hint::black_box,
    sync::atomic::{AtomicU8, Ordering},
};

use daiko_core::place::{BOUND, Class, Follow, Kind, Target, pick, wake, wanted};

use super::{
    calls::check_count,
    laps::{Laps, SELDOM, Timed},
};
use crate::{Failure, experiment::Effort, random::SplitMix64};

/// Decisions in a round: beside as many, counting rounds is nothing.
const ASKED: u64 = 128;
/// Workers, each of which wakes in turn, and has the interrupts of some movers.
const WORKERS: u64 = 4;

/// A mover: what is remembered of it, and where it is.
#[derive(Clone, Copy)]
struct Mover {
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
pub(super) fn place_follow(effort: Effort) -> Result<Timed, Failure> {
    let mut random = SplitMix64(1);
    let mut worker = || random.below(WORKERS) as u16;
    let wakes: Vec<_> = (0..ASKED).map(|_| Wake { agent: worker(), interrupt: worker() }).collect();
    let mut movers = [Mover { follow: Follow::new(), at: 0 }; 16];
    let mut right = 0;
    let mut laps = Laps::new(effort, SELDOM);
    while laps.another() {
        for (index, wake) in wakes.iter().enumerate() {
            right += u64::from(decide(&mut movers[index % 16], black_box(*wake)));
        }
    }
    let timed = laps.end(ASKED);
    check_count("wake-ups that went somewhere", right, (timed.rounds + 1) * ASKED)?;
    Ok(timed)
}

/// Whether the mover has stayed, or gone to the agent.
fn decide(mover: &mut Mover, by: Wake) -> bool {
    let previous = mover.at;
    mover.at = mover.follow.place(by.interrupt, previous, BOUND, || {
        match wake(Kind::Mover, previous.into(), Some(by.agent.into()), true) {
            Target::NextSlot => by.agent,
            Target::Inbox(worker) => worker as u16,
        }
    });
    mover.at == previous || mover.at == by.agent
}

/// What is looked at of a fiber, on lines of its own.
#[repr(align(128))]
struct Fiber {
    class: Class,
    passed: AtomicU8,
}

/// Fibers of a queue.
const QUEUED: usize = 16;

/// A worker picks from its queue beside a sibling that changes to the next of its fibers each time. Half of them compute, half
/// stall, in no order.
pub(super) fn place_pair(effort: Effort) -> Result<Timed, Failure> {
    let mut random = SplitMix64(1);
    let mut fiber = |_| {
        let class = if random.below(2) == 0 { Class::Compute } else { Class::Stall };
        Fiber { class, passed: AtomicU8::new(0) }
    };
    let [queued, others] = [(); 2].map(|()| (0..QUEUED).map(&mut fiber).collect::<Vec<_>>());
    let mut queue: VecDeque<_> = queued.iter().collect();
    let mut overtakes = 0;
    let mut laps = Laps::new(effort, SELDOM);
    while laps.another() {
        for index in 0..ASKED as usize {
            let beside = &others[black_box(index % QUEUED)];
            overtakes += u64::from(next_beside(beside, &mut queue));
        }
    }
    let timed = laps.end(ASKED);
    check_count("fibers that are queued", queue.len() as u64, QUEUED as u64)?;
    let asked = (timed.rounds + 1) * ASKED;
    if overtakes == 0 || overtakes == asked {
        return Err(Failure::Broken(format!(
            "{overtakes} of {asked} fibers have overtaken others"
        )));
    }
    Ok(timed)
}

/// Runs the fiber of the queue that goes best beside another; whether it was not the oldest.
fn next_beside(beside: &Fiber, queue: &mut VecDeque<&Fiber>) -> bool {
    let seen = |fiber: &&Fiber| (fiber.class, fiber.passed.load(Ordering::Relaxed));
    let chosen = wanted([beside.class]).map_or(0, |wanted| pick(wanted, queue.iter().map(seen)));
    for passed in queue.iter().take(chosen) {
        passed.passed.store(seen(passed).1 + 1, Ordering::Relaxed);
    }
    let fiber = queue.remove(chosen).expect("one of the queue");
    fiber.passed.store(0, Ordering::Relaxed);
    queue.push_back(fiber);
    chosen > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn as_many_decisions_are_timed_as_were_asked_for() {
        let effort = Effort { rounds: 3, limit: Duration::from_secs(60) };
        assert_eq!(place_follow(effort).expect("all go somewhere").count, 3 * ASKED);
        assert_eq!(place_pair(effort).expect("some overtake others").count, 3 * ASKED);
    }
}
