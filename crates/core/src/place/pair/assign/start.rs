//! Where the search begins: with as many pairs, and as few idle cores, as can be.

use super::{COMPUTE, Core, Counts, Machine, Policy, STALL, UNKNOWN, plus, sum};

/// How many tasks of each class each core gets.
pub(super) fn plan(machine: &Machine) -> Vec<Counts> {
    let mut start = Start {
        machine,
        plan: vec![[0; 3]; machine.cores.len()],
        left: machine.totals,
        over: machine.over,
    };
    if machine.policy == Policy::Parallel {
        start.place_alike();
    } else {
        start.place_pairs();
        start.place_singles();
    }
    start.plan
}

struct Start<'m> {
    machine: &'m Machine,
    plan: Vec<Counts>,
    /// Tasks without a place.
    left: Counts,
    /// How many of them are beyond what the cores need.
    over: usize,
}

impl Start<'_> {
    /// As many pairs as there can be: where they take least of what is over, then on cores that have fewest.
    fn place_pairs(&mut self) {
        while self.left[COMPUTE] > 0 && self.left[STALL] > 0 {
            let cores = self.machine.cores.iter().enumerate();
            let fitting = cores.filter(|(at, core)| {
                core.sites.len() > 1
                    && self.room(*at, core) >= 2
                    && 2 - self.need(*at, core).min(2) <= self.over
            });
            let best = fitting.min_by_key(|(at, core)| {
                let newcomers =
                    [COMPUTE, STALL].iter().filter(|&&class| !self.would_stay(*at, core, class));
                (2 - self.need(*at, core).min(2), sum(&self.plan[*at]), newcomers.count())
            });
            let Some((at, _)) = best else { return };
            self.put(at, COMPUTE);
            self.put(at, STALL);
        }
    }

    /// The others: first where tasks are missing, then on idle cores, then anywhere; where they stay, if they can.
    fn place_singles(&mut self) {
        while sum(&self.left) > 0 {
            let cores = self.machine.cores.iter().enumerate();
            let places = cores
                .filter(|(at, core)| self.room(*at, core) > 0)
                .flat_map(|place| [UNKNOWN, COMPUTE, STALL].map(|class| (place, class)));
            let best = places.filter(|(_, class)| self.left[*class] > 0).min_by_key(
                |&((at, core), class)| {
                    let full = self.need(at, core) == 0;
                    let beside = full && sum(&self.plan[at]) > 0;
                    let moves = !self.would_stay(at, core, class);
                    (full, beside, moves, usize::MAX - self.left[class])
                },
            );
            let Some(((at, _), class)) = best else { unreachable!("there is room for all tasks") };
            self.put(at, class);
        }
    }

    /// One class after the other, core by core.
    fn place_alike(&mut self) {
        let mut classes = [COMPUTE, UNKNOWN, STALL]
            .into_iter()
            .flat_map(|class| std::iter::repeat_n(class, self.machine.totals[class]));
        let loads: Vec<usize> = self.even_loads();
        for (at, load) in loads.into_iter().enumerate() {
            for class in classes.by_ref().take(load) {
                self.plan[at][class] += 1;
            }
        }
    }

    /// How many tasks each core gets: none is idle while another has two more than it needs.
    fn even_loads(&self) -> Vec<usize> {
        let cores = &self.machine.cores;
        let mut loads: Vec<usize> = cores.iter().map(|core| self.machine.least(core)).collect();
        for _ in 0..self.over {
            let open = (0..cores.len()).filter(|&at| loads[at] < self.machine.most(&cores[at]));
            let at = open.min_by_key(|&at| loads[at]).expect("there is room for all tasks");
            loads[at] += 1;
        }
        loads
    }

    fn put(&mut self, at: usize, class: usize) {
        if self.need(at, &self.machine.cores[at]) == 0 {
            self.over -= 1;
        }
        let mut one = [0; 3];
        one[class] = 1;
        self.plan[at] = plus(self.plan[at], one);
        self.left[class] -= 1;
    }

    fn room(&self, at: usize, core: &Core) -> usize {
        self.machine.most(core) - sum(&self.plan[at])
    }

    /// How many tasks it lacks.
    fn need(&self, at: usize, core: &Core) -> usize {
        self.machine.least(core).saturating_sub(sum(&self.plan[at]))
    }

    fn would_stay(&self, at: usize, core: &Core, class: usize) -> bool {
        self.plan[at][class] < core.present[class]
    }
}
