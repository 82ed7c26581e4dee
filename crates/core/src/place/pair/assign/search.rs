//! The best plan within reach of another one: a dynamic program over the cores, one node after the
//! other.
//!
//! After some cores, the state is, for each number of tasks of each class that they may have got,
//! the highest value, and the counts that the last core got for it. The reach says how far such a
//! number may differ from that of the previous plan. If it covers all possible numbers, the result
//! is the best plan of all.

use std::array;

use super::{Counts, PlannedMachine, SiblingUse, plus, sum};

/// Largest cost of a search, in cells looked at.
const COST: usize = 4_000_000;
const LEAST_REACH: usize = 2;

/// The value of a plan: pairs and tasks that stay, with 32 bits below each, less the crossings.
type PlanValue = i128;

/// The value of a cell that no choice leads to.
const NONE: PlanValue = PlanValue::MIN;

/// Returns the best plan, or one to which no plan within `reach` of it is superior.
pub(super) fn best(machine: &PlannedMachine, mut plan: Vec<Counts>, reach: usize) -> Vec<Counts> {
    loop {
        let before = value(machine, &plan);
        let better = improve(machine, &plan, reach);
        if value(machine, &better) <= before {
            return plan;
        }
        plan = better;
        if machine.totals.iter().all(|&total| total <= reach) {
            return plan;
        }
    }
}

/// Returns the widest reach with an affordable search.
pub(super) fn reach(machine: &PlannedMachine) -> usize {
    let all = machine.totals.into_iter().max().unwrap_or(0);
    let affordable = |reach: &usize| cost(machine, *reach) <= COST;
    (LEAST_REACH..=all).take_while(affordable).last().unwrap_or(LEAST_REACH)
}

/// Returns the largest number of cells that a search looks at.
fn cost(machine: &PlannedMachine, reach: usize) -> usize {
    let cells = |most: usize| -> usize {
        machine.totals.iter().map(|&total| total.min(most).min(2 * reach) + 1).product()
    };
    let states = cells(usize::MAX);
    // For one core: the number of vectors with a sum that it may get.
    let choices = machine.cores.iter().map(|core| {
        let loads = machine.least(core)..=machine.most(core);
        let ways: usize = loads.map(|load| (load + 1) * (load + 2) / 2).sum();
        cells(machine.most(core)).min(ways)
    });
    let cores = choices.fold(0_usize, |all, one| all.saturating_add(states.saturating_mul(one)));
    let joints = (machine.node_ends.len() - 1).saturating_mul(states).saturating_mul(states);
    cores.saturating_add(joints)
}

pub(super) fn value(machine: &PlannedMachine, plan: &[Counts]) -> PlanValue {
    let cores: PlanValue =
        (0..plan.len()).map(|core| value_of_core(machine, core, &plan[core])).sum();
    let nodes = machine.nodes().map(|node| {
        let got = plan[node.clone()].iter().copied().fold([0; 3], plus);
        crossings(&present(machine, node), &got)
    });
    cores - nodes.sum::<PlanValue>()
}

fn value_of_core(machine: &PlannedMachine, core: usize, tasks: &Counts) -> PlanValue {
    let core = &machine.cores[core];
    let pairs = core.pairs(tasks) as PlanValue;
    let pairs = if machine.policy == SiblingUse::Parallel { -pairs } else { pairs };
    let stays = core.stays(tasks) as PlanValue;
    ((pairs << 32) + stays) << 32
}

/// Returns the number of tasks that leave a node: those that it has more of than it gets, as tasks
/// of the node take its free places.
fn crossings(present: &Counts, got: &Counts) -> PlanValue {
    present.iter().zip(got).map(|(now, then)| now.saturating_sub(*then) as PlanValue).sum()
}

fn present(machine: &PlannedMachine, node: std::ops::Range<usize>) -> Counts {
    machine.cores[node].iter().map(|core| core.present).fold([0; 3], plus)
}

/// Returns the best plan within `reach` of `plan`.
fn improve(machine: &PlannedMachine, plan: &[Counts], reach: usize) -> Vec<Counts> {
    let mut all = Chain::new();
    let mut nodes = Vec::new();
    for node in machine.nodes() {
        let mut chain = Chain::new();
        for core in node.clone() {
            let choices = choices(machine, core, plan[core], reach);
            chain.extend(choices, plan[core], reach, &machine.totals);
        }
        let here = present(machine, node);
        let mut choices = chain.last().choices();
        choices.iter_mut().for_each(|(got, value)| *value -= crossings(&here, got));
        all.extend(choices, chain.planned, reach, &machine.totals);
        nodes.push(chain);
    }
    let gets = all.trace(machine.totals);
    nodes.iter().zip(gets).flat_map(|(chain, got)| chain.trace(got)).collect()
}

/// Returns the possible counts of a core, and their values.
fn choices(
    machine: &PlannedMachine,
    core: usize,
    planned: Counts,
    reach: usize,
) -> Vec<(Counts, PlanValue)> {
    let (least, most) = (machine.least(&machine.cores[core]), machine.most(&machine.cores[core]));
    let room = Grid::around(planned, reach, &machine.totals.map(|total| total.min(most)));
    let loads = least..=most;
    let fitting = room.cells().filter(|tasks| loads.contains(&sum(tasks)));
    fitting.map(|tasks| (tasks, value_of_core(machine, core, &tasks))).collect()
}

/// Cores, or nodes, one after the other.
struct Chain {
    /// The counts that the links so far get by the previous plan.
    planned: Counts,
    links: Vec<Grid>,
    /// The possible counts of each link.
    choices: Vec<Vec<(Counts, PlanValue)>>,
}

impl Chain {
    fn new() -> Self {
        let mut none = Grid::around([0; 3], 0, &[0; 3]);
        none.values[0] = 0;
        Chain { planned: [0; 3], links: vec![none], choices: Vec::new() }
    }

    fn last(&self) -> &Grid {
        self.links.last().expect("the first link has no core")
    }

    /// Adds a link, which may get one of `choices`, and gets `planned` by the previous plan.
    fn extend(
        &mut self,
        choices: Vec<(Counts, PlanValue)>,
        planned: Counts,
        reach: usize,
        totals: &Counts,
    ) {
        self.planned = plus(self.planned, planned);
        let mut next = Grid::around(self.planned, reach, totals);
        for (before, value) in self.last().choices() {
            for (index, (got, worth)) in choices.iter().enumerate() {
                next.offer(plus(before, *got), value + worth, index);
            }
        }
        self.links.push(next);
        self.choices.push(choices);
    }

    /// Returns the counts of each link if all together get `together`.
    fn trace(&self, mut together: Counts) -> Vec<Counts> {
        let steps = self.links[1..].iter().zip(&self.choices).rev();
        let mut gets: Vec<_> = steps
            .map(|(grid, choices)| {
                let got = choices[grid.chosen(together)].0;
                together = array::from_fn(|class| together[class] - got[class]);
                got
            })
            .collect();
        gets.reverse();
        gets
    }
}

/// A value for each number of tasks of each class within bounds.
struct Grid {
    low: Counts,
    len: Counts,
    values: Vec<PlanValue>,
    /// The choice that has led to each cell.
    chosen: Vec<u32>,
}

impl Grid {
    /// Creates the grid of counts at most `reach` from `middle`, and no more than `most`.
    fn around(middle: Counts, reach: usize, most: &Counts) -> Self {
        let low: Counts = array::from_fn(|class| middle[class].saturating_sub(reach));
        let len: Counts =
            array::from_fn(|class| (middle[class] + reach).min(most[class]) + 1 - low[class]);
        let cells = len.iter().product();
        Grid { low, len, values: vec![NONE; cells], chosen: vec![0; cells] }
    }

    fn cells(&self) -> impl Iterator<Item = Counts> {
        let (low, [_, b, c]) = (self.low, self.len);
        (0..self.len.iter().product())
            .map(move |cell| plus(low, [cell / (b * c), cell / c % b, cell % c]))
    }

    /// Returns the cells that a choice leads to.
    fn choices(&self) -> Vec<(Counts, PlanValue)> {
        let all = self.cells().zip(self.values.iter().copied());
        all.filter(|(_, value)| *value != NONE).collect()
    }

    fn cell(&self, counts: Counts) -> Option<usize> {
        let at: Counts = array::from_fn(|class| counts[class].wrapping_sub(self.low[class]));
        let inside = at.iter().zip(&self.len).all(|(at, len)| at < len);
        inside.then(|| (at[0] * self.len[1] + at[1]) * self.len[2] + at[2])
    }

    /// Records a way to `counts`, if there is none as good.
    #[inline]
    fn offer(&mut self, counts: Counts, value: PlanValue, choice: usize) {
        if let Some(cell) = self.cell(counts)
            && value > self.values[cell]
        {
            self.values[cell] = value;
            self.chosen[cell] = choice as u32;
        }
    }

    fn chosen(&self, counts: Counts) -> usize {
        let cell = self.cell(counts).expect("within bounds: the way led here");
        self.chosen[cell] as usize
    }
}
