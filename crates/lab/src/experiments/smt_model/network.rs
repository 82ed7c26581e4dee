//! Tasks that share stations, each of which serves all its tasks evenly, at the same speed in all.
//!
//! The model is a closed queueing network of product form in which every task is a customer of its
//! own. It is solved by exact mean value analysis (Reiser and Lavenberg, "Mean-value analysis of
//! closed multichain queuing networks", JACM 27, 1980): a task that arrives at a station finds the
//! queue that the other tasks would have there on average without it.

use std::iter;

/// Cores of the machine.
pub(super) const CORES: usize = 2;
/// Numbers of stations of each core, of shared stations, and of all.
const OWN: usize = 3;
const SHARED: usize = 2;
const STATIONS: usize = CORES * OWN + SHARED;

/// Service time of a unit of a task's work at each station while the task is alone, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Issue slots of its core.
    pub slots: f64,
    /// The divider of its core.
    pub divider: f64,
    /// Fill buffers of its core's first cache.
    pub buffers: f64,
    /// The channels to DRAM.
    pub dram: f64,
    /// Persistent memory that accepts writes.
    pub pmem: f64,
    /// Time that no other task delays: waits for results.
    pub alone: f64,
}

impl Demand {
    /// Time of a unit while the task is alone, in nanoseconds.
    pub fn total(&self) -> f64 {
        self.stations().iter().sum::<f64>() + self.alone
    }

    fn stations(&self) -> [f64; OWN + SHARED] {
        [self.slots, self.divider, self.buffers, self.dram, self.pmem]
    }

    /// Stations that a task on `core` visits, with the service times.
    fn visits(&self, core: usize) -> impl Iterator<Item = (usize, f64)> {
        let own = core * OWN..(core + 1) * OWN;
        own.chain(CORES * OWN..STATIONS).zip(self.stations())
    }
}

/// A task and the core that it runs on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) core: usize,
    pub(super) demand: Demand,
}

/// Units that each task does per nanosecond while all tasks run.
pub(super) fn rates(tasks: &[Running]) -> Vec<f64> {
    // For each set of tasks, the average number of them at each station.
    let mut queues = vec![[0.0; STATIONS]; 1 << tasks.len()];
    let mut rates = vec![0.0; tasks.len()];
    // A set comes after all of its subsets. The last set has all tasks, and so leaves the final
    // rates.
    for set in 1..queues.len() {
        let mut queue = [0.0; STATIONS];
        for (index, task) in members(tasks, set) {
            let rest = &queues[set & !(1 << index)];
            let stay = |(station, time): (usize, f64)| (station, time * (1.0 + rest[station]));
            let stays = || task.demand.visits(task.core).map(stay);
            rates[index] = 1.0 / (task.demand.alone + stays().map(|(_, time)| time).sum::<f64>());
            stays().for_each(|(station, time)| queue[station] += rates[index] * time);
        }
        queues[set] = queue;
    }
    rates
}

fn members(tasks: &[Running], set: usize) -> impl Iterator<Item = (usize, &Running)> {
    iter::zip(0.., tasks).filter(move |(index, _)| set & (1 << index) != 0)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        pub(in super::super) fn demands()(
            (slots, divider, buffers) in (0.0..100.0f64, 0.0..100.0f64, 0.0..100.0f64),
            (dram, pmem, alone) in (0.0..100.0f64, 0.0..100.0f64, 0.01..100.0f64),
        ) -> Demand {
            Demand { slots, divider, buffers, dram, pmem, alone }
        }
    }

    fn tasks() -> impl Strategy<Value = Vec<Running>> {
        let task = (0..CORES, demands()).prop_map(|(core, demand)| Running { core, demand });
        vec(task, 1..=4)
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
    }

    /// Utilisation of each station.
    fn used(tasks: &[Running], rates: &[f64]) -> [f64; STATIONS] {
        let mut used = [0.0; STATIONS];
        for (task, rate) in iter::zip(tasks, rates) {
            task.demand.visits(task.core).for_each(|(station, time)| used[station] += rate * time);
        }
        used
    }

    /// Two tasks at one station, by the Markov chain of its occupancy (none, one, the other, both),
    /// iterated until it is stationary.
    fn by_chain(service: [f64; 2], think: [f64; 2]) -> [f64; 2] {
        let step = 0.1 * service.iter().chain(&think).copied().fold(f64::MAX, f64::min);
        let mut chance = [1.0, 0.0, 0.0, 0.0];
        for _ in 0..200_000 {
            let mut next = chance;
            let mut flow = |from: usize, to: usize, rate: f64| {
                next[from] -= chance[from] * rate * step;
                next[to] += chance[from] * rate * step;
            };
            for (task, bit) in [(0, 1), (1, 2)] {
                let other = 3 - bit;
                flow(0, bit, 1.0 / think[task]);
                flow(other, 3, 1.0 / think[task]);
                flow(bit, 0, 1.0 / service[task]);
                flow(3, other, 0.5 / service[task]);
            }
            chance = next;
        }
        [0, 1].map(|task| (chance[1 + task] + chance[3] / 2.0) / service[task])
    }

    proptest! {
        #[test]
        fn no_task_is_faster_beside_other_tasks_than_alone(tasks in tasks()) {
            for (rate, task) in iter::zip(rates(&tasks), &tasks) {
                prop_assert!(rate > 0.0 && rate <= (1.0 + 1e-9) / task.demand.total());
            }
        }

        #[test]
        fn the_order_of_tasks_does_not_matter(tasks in tasks()) {
            let reversed: Vec<Running> = tasks.iter().rev().copied().collect();
            for (rate, other) in iter::zip(rates(&tasks), rates(&reversed).into_iter().rev()) {
                prop_assert!(close(rate, other), "{} {}", rate, other);
            }
        }

        #[test]
        fn cores_are_alike(tasks in tasks()) {
            let swapped: Vec<Running> =
                tasks.iter().map(|task| Running { core: 1 - task.core, ..*task }).collect();
            for (rate, other) in iter::zip(rates(&tasks), rates(&swapped)) {
                prop_assert!(close(rate, other), "{} {}", rate, other);
            }
        }

        #[test]
        fn no_station_does_more_than_it_can(tasks in tasks()) {
            for used in used(&tasks, &rates(&tasks)) {
                prop_assert!(used <= 1.0 + 1e-9, "{}", used);
            }
        }

        #[test]
        fn tasks_that_share_no_station_do_not_notice_each_other(one in demands(), two in demands()) {
            let own = |demand| Demand { dram: 0.0, pmem: 0.0, ..demand };
            let tasks = [(0, own(one)), (1, own(two))].map(|(core, demand)| Running { core, demand });
            for (rate, task) in iter::zip(rates(&tasks), tasks) {
                prop_assert!(close(rate, 1.0 / task.demand.total()));
            }
        }
    }

    #[test]
    fn two_tasks_at_a_station_agree_with_a_markov_chain() {
        for (service, think) in
            [([3.0, 3.0], [5.0, 5.0]), ([1.0, 9.0], [4.0, 2.0]), ([2.0, 7.0], [9.0, 0.5])]
        {
            let task = |index: usize| {
                let demand =
                    Demand { slots: service[index], alone: think[index], ..Demand::default() };
                Running { core: 0, demand }
            };
            for (rate, expected) in iter::zip(rates(&[task(0), task(1)]), by_chain(service, think))
            {
                assert!((rate / expected - 1.0).abs() < 1e-6, "{rate} {expected}");
            }
        }
    }

    #[test]
    fn two_tasks_of_one_station_alone_have_half_of_it_each() {
        let demand = Demand { divider: 4.0, ..Demand::default() };
        assert_eq!(rates(&[Running { core: 0, demand }; 2]), [1.0 / 8.0; 2]);
    }
}
