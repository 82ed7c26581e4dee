//! The plan where the search begins, with the most pairs.

use super::{COMPUTE, Counts, PlannedMachine, STALL, SiblingUse, UNKNOWN, sum};

/// Returns the number of tasks of each class for each core.
pub(super) fn plan(machine: &PlannedMachine) -> Vec<Counts> {
    let mut start = InitialPlan {
        machine,
        plan: vec![[0; 3]; machine.cores.len()],
        left: machine.totals,
        over: sum(&machine.totals)
            - machine.cores.iter().map(|core| machine.least(core)).sum::<usize>(),
    };
    if machine.policy == SiblingUse::Parallel {
        start.place_alike();
    } else {
        start.place_pairs();
        start.place_singles();
    }
    start.plan
}

struct InitialPlan<'m> {
    machine: &'m PlannedMachine,
    plan: Vec<Counts>,
    /// Numbers of tasks without a place.
    left: Counts,
    /// Number of them beyond the needs of the cores.
    over: usize,
}

impl InitialPlan<'_> {
    /// Places as many pairs as possible, where their tasks stay if they can.
    fn place_pairs(&mut self) {
        while self.left[COMPUTE] > 0 && self.left[STALL] > 0 {
            let fitting = (0..self.plan.len()).filter(|&at| {
                let is_shared = self.machine.cores[at].sites.len() > 1;
                is_shared && self.room(at) >= 2 && (self.need(at) >= 2 || self.over > 0)
            });
            let best = fitting.min_by_key(|&at| {
                [COMPUTE, STALL].iter().filter(|class| !self.would_stay(at, **class)).count()
            });
            let Some(at) = best else { return };
            self.put(at, COMPUTE);
            self.put(at, STALL);
        }
    }

    /// Places the remaining tasks: first where tasks are missing, then anywhere; where they stay,
    /// if they can, and disturb no pair.
    fn place_singles(&mut self) {
        while sum(&self.left) > 0 {
            let places = (0..self.plan.len())
                .filter(|&at| self.room(at) > 0)
                .flat_map(|at| [UNKNOWN, COMPUTE, STALL].map(|class| (at, class)));
            let possible = places.filter(|&(_, class)| self.left[class] > 0);
            let best = possible.min_by_key(|&(at, class)| {
                let is_full = self.need(at) == 0;
                let has_pair = self.machine.cores[at].pairs(&self.plan[at]) > 0;
                (is_full, !self.would_stay(at, class), has_pair, usize::MAX - self.left[class])
            });
            let Some((at, class)) = best else { unreachable!("there is room for all tasks") };
            self.put(at, class);
        }
    }

    /// Places one class after the other, core by core.
    fn place_alike(&mut self) {
        let mut classes = [COMPUTE, UNKNOWN, STALL]
            .into_iter()
            .flat_map(|class| std::iter::repeat_n(class, self.machine.totals[class]));
        for (got, core) in self.plan.iter_mut().zip(&self.machine.cores) {
            let least = self.machine.least(core);
            let more = self.over.min(self.machine.most(core) - least);
            self.over -= more;
            classes.by_ref().take(least + more).for_each(|class| got[class] += 1);
        }
    }

    fn put(&mut self, at: usize, class: usize) {
        if self.need(at) == 0 {
            self.over -= 1;
        }
        self.plan[at][class] += 1;
        self.left[class] -= 1;
    }

    fn room(&self, at: usize) -> usize {
        self.machine.most(&self.machine.cores[at]) - sum(&self.plan[at])
    }

    /// Returns the number of tasks that a core lacks.
    fn need(&self, at: usize) -> usize {
        self.machine.least(&self.machine.cores[at]).saturating_sub(sum(&self.plan[at]))
    }

    fn would_stay(&self, at: usize, class: usize) -> bool {
        self.plan[at][class] < self.machine.cores[at].present[class]
    }
}
