//! The choice of the tasks of a core, and of their sites there, from the counts of each class.

use std::ops::Range;

use super::{Counts, PlannedMachine, Task, sum};

/// Returns the site of each task.
pub(super) fn tasks(machine: &PlannedMachine, plan: &[Counts], tasks: &[Task]) -> Vec<usize> {
    let cores = cores(machine, plan, tasks);
    let loads = vec![[0; 3]; machine.core_of.len()];
    let over = plan.iter().zip(&machine.cores);
    let over = over.map(|(got, core)| sum(got) - core.sites.len() * machine.floor).collect();
    let mut seats = Seats { machine, loads, over };
    // Tasks that keep their sites come first, so that no sibling takes them.
    let kept: Vec<_> = tasks
        .iter()
        .zip(&cores)
        .map(|(task, &core)| task.at.filter(|&site| seats.keep(task, site, core)))
        .collect();
    let all = tasks.iter().zip(cores).zip(kept);
    all.map(|((task, core), kept)| kept.unwrap_or_else(|| seats.sit(task, core))).collect()
}

/// Returns the core of each task: its own, one of its node, or any, whichever has a place for its
/// class first.
fn cores(machine: &PlannedMachine, plan: &[Counts], tasks: &[Task]) -> Vec<usize> {
    let mut left = plan.to_vec();
    let mut cores = vec![None; tasks.len()];
    let own_node = |core: usize| machine.nodes().find(|node| node.contains(&core));
    let anywhere = 0..plan.len();
    let searches: [&dyn Fn(Option<usize>) -> Option<Range<usize>>; 3] =
        [&|now| now.map(|core| core..core + 1), &|now| now.and_then(own_node), &|_| {
            Some(anywhere.clone())
        }];
    for search in searches {
        for (task, core) in tasks.iter().zip(&mut cores).filter(|(_, core)| core.is_none()) {
            let now = task.at.map(|site| machine.core_of[site]);
            let mut within = search(now).into_iter().flatten();
            *core = within.find(|&core| left[core][task.class as usize] > 0);
            core.iter().for_each(|&core| left[core][task.class as usize] -= 1);
        }
    }
    cores.into_iter().map(|core| core.expect("the plan has a place for every task")).collect()
}

struct Seats<'m> {
    machine: &'m PlannedMachine,
    /// The tasks that each site has got.
    loads: Vec<Counts>,
    /// Number of sites of each core that still get one task more than the rest.
    over: Vec<usize>,
}

impl Seats<'_> {
    /// Leaves a task on `site`, where it is, if that is of its `core` and has room; returns true if
    /// so.
    fn keep(&mut self, task: &Task, site: usize, core: usize) -> bool {
        let load = sum(&self.loads[site]);
        let has_room =
            load < self.machine.floor || load == self.machine.floor && self.over[core] > 0;
        let keeps = has_room && self.machine.cores[core].sites.contains(&site);
        if keeps {
            self.take(task, site, core);
        }
        keeps
    }

    /// Takes the site of `core` that has fewest tasks; among equals the site that has most of the
    /// class.
    fn sit(&mut self, task: &Task, core: usize) -> usize {
        let class = task.class as usize;
        let load = |site: usize| (sum(&self.loads[site]), usize::MAX - self.loads[site][class]);
        let sites = self.machine.cores[core].sites.iter().copied();
        let site = sites.min_by_key(|&site| load(site)).expect("a core has a site");
        self.take(task, site, core);
        site
    }

    fn take(&mut self, task: &Task, site: usize, core: usize) {
        if sum(&self.loads[site]) == self.machine.floor {
            self.over[core] -= 1;
        }
        self.loads[site][task.class as usize] += 1;
    }
}
