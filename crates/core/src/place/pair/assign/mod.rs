//! The placement of all tasks at once, by the choice of those that share a core.
//!
//! Tasks of a class on the same core are alike, and so are the hardware threads of a core. So the
//! search decides only how many tasks of each class a core gets (`search`, from the plan of
//! `start`). Then `seat` chooses the tasks.

mod search;
mod seat;
mod start;

use super::Class;

/// The use of siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiblingUse {
    /// Stalling tasks beside computing tasks.
    Cross,
    /// Like beside like: as few tasks beside their complement as possible.
    Parallel,
    /// One hardware thread of each core, its siblings idle.
    NoSmt,
}

/// A CPU that tasks may be placed on: one hardware thread of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its core, by any number.
    pub core: usize,
    /// The NUMA node of its core, by any number.
    pub node: usize,
}

/// A task to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its class.
    pub class: Class,
    /// The index of the site where it is now; `None` if on none of them.
    pub at: Option<usize>,
}

/// Returns the index of the site of each task.
///
/// Sites get tasks evenly: none has two more than another. So do cores, as far as their sites
/// allow: none gets a second task while another one is idle, nor a third while another one has room
/// for a second. Then the following count, one after the other, under [`SiblingUse::Cross`]:
///
/// 1. most pairs: a core of two sites or more, on which `c` tasks compute and `s` stall, has the
///    lesser of both;
/// 2. fewest migrations: tasks that change their core. Siblings share all caches, so that between
///    them nothing has to follow;
/// 3. fewest of them to another NUMA node.
///
/// [`SiblingUse::Parallel`] has the fewest pairs in place of the most. [`SiblingUse::NoSmt`] counts
/// the same, with one site of each core. Within its core a task stays on its site as far as there
/// is room. The same arguments have the same result.
///
/// The result is the best choice up to some 64 CPUs of one NUMA node, or 32 of two, with as many
/// tasks. Beyond, 1 of `Cross` still is the best, and in 2 and 3 no plan near it is better: README
/// of `core/place/pair`.
///
/// # Panics
///
/// If there are tasks and no site, or if the site of a task does not exist.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Class, SiblingUse, Site, Task, assign};
///
/// let sites = [0, 0, 1, 1].map(|core| Site { core, node: 0 });
/// let task = |class, at| Task { class, at: Some(at) };
/// let tasks = [
///     task(Class::Compute, 0),
///     task(Class::Compute, 1),
///     task(Class::Stall, 2),
///     task(Class::Stall, 3),
/// ];
/// let placed = assign(SiblingUse::Cross, &sites, &tasks);
/// // One of each has changed its core.
/// assert_eq!(placed, [0, 3, 2, 1]);
/// assert_eq!(assign(SiblingUse::Parallel, &sites, &tasks), [0, 1, 2, 3]);
/// ```
pub fn assign(policy: SiblingUse, sites: &[Site], tasks: &[Task]) -> Vec<usize> {
    if tasks.is_empty() {
        return Vec::new();
    }
    assert!(!sites.is_empty(), "there is no site for a task");
    let machine = PlannedMachine::new(policy, sites, tasks);
    let plan = search::best(&machine, start::plan(&machine), search::reach(&machine));
    seat::tasks(&machine, &plan, tasks)
}

/// Returns true if [`SiblingUse::Cross`] is no risk: both classes are there, and so many tasks that
/// each core is shared anyway.
///
/// With fewer tasks, pairs would also decide which tasks have a core for themselves. That may cost
/// more than a pair gains, as a task that computes may profit more from a core.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Class, Site, Task, can_cross};
///
/// let sites = [0, 0, 1, 1].map(|core| Site { core, node: 0 });
/// let tasks = [Class::Compute, Class::Stall, Class::Stall, Class::Unknown];
/// let tasks = tasks.map(|class| Task { class, at: None });
/// assert!(can_cross(&sites, &tasks));
/// assert!(!can_cross(&sites, &tasks[..3]), "one of them has a core for itself");
/// assert!(!can_cross(&sites, &[tasks[1]; 4]), "none computes");
/// ```
pub fn can_cross(sites: &[Site], tasks: &[Task]) -> bool {
    let has = |class| tasks.iter().any(|task| task.class == class);
    let is_shared = |site: &Site| sites.iter().filter(|other| other.core == site.core).count() > 1;
    has(Class::Compute)
        && has(Class::Stall)
        && tasks.len() >= sites.len()
        && sites.iter().any(is_shared)
}

/// Numbers of tasks of each class, by `class as usize`.
type Counts = [usize; 3];

const UNKNOWN: usize = Class::Unknown as usize;
const COMPUTE: usize = Class::Compute as usize;
const STALL: usize = Class::Stall as usize;

fn sum(counts: &Counts) -> usize {
    counts.iter().sum()
}

fn plus(left: Counts, right: Counts) -> Counts {
    [left[0] + right[0], left[1] + right[1], left[2] + right[2]]
}

struct Core {
    /// Its sites that get tasks, by their index.
    sites: Vec<usize>,
    /// Tasks that are on it now.
    present: Counts,
}

impl Core {
    /// Returns the number of its pairs with these tasks.
    fn pairs(&self, tasks: &Counts) -> usize {
        if self.sites.len() < 2 { 0 } else { tasks[COMPUTE].min(tasks[STALL]) }
    }

    /// Returns the number of its tasks that stay if it gets these.
    fn stays(&self, tasks: &Counts) -> usize {
        self.present.iter().zip(tasks).map(|(now, then)| now.min(then)).sum()
    }
}

struct PlannedMachine {
    policy: SiblingUse,
    /// The cores; those of a node follow each other.
    cores: Vec<Core>,
    /// The ends of the nodes, as indices of cores.
    node_ends: Vec<usize>,
    /// The core of each site, those of `NoSmt` that get no tasks included.
    core_of: Vec<usize>,
    totals: Counts,
    /// The fewest tasks of a site, and the number of sites that have one more.
    floor: usize,
    over: usize,
    /// The tasks of each core that has room for them.
    level: usize,
}

impl PlannedMachine {
    fn new(policy: SiblingUse, sites: &[Site], tasks: &[Task]) -> Self {
        let mut order: Vec<usize> = (0..sites.len()).collect();
        let node_of = |core: usize| sites.iter().find(|site| site.core == core).map(|s| s.node);
        order.sort_by_key(|&site| (node_of(sites[site].core), sites[site].core, site));
        let mut machine = PlannedMachine {
            policy,
            cores: Vec::new(),
            node_ends: Vec::new(),
            core_of: vec![0; sites.len()],
            totals: [0; 3],
            floor: 0,
            over: 0,
            level: 0,
        };
        for group in order.chunk_by(|&a, &b| sites[a].core == sites[b].core) {
            group.iter().for_each(|&site| machine.core_of[site] = machine.cores.len());
            machine.cores.push(Core { sites: group.to_vec(), present: [0; 3] });
        }
        let nodes = machine
            .cores
            .chunk_by(|a, b| node_of(sites[a.sites[0]].core) == node_of(sites[b.sites[0]].core));
        machine.node_ends = nodes
            .map(|node| node.len())
            .scan(0, |end, len| {
                *end += len;
                Some(*end)
            })
            .collect();
        machine.count(tasks);
        machine
    }

    fn count(&mut self, tasks: &[Task]) {
        let mut here = vec![0; self.core_of.len()];
        for task in tasks {
            self.totals[task.class as usize] += 1;
            if let Some(at) = task.at {
                here[at] += 1;
                self.cores[self.core_of[at]].present[task.class as usize] += 1;
            }
        }
        if self.policy == SiblingUse::NoSmt {
            for core in &mut self.cores {
                let most = core.sites.iter().rev().copied().max_by_key(|&site| here[site]);
                core.sites = most.into_iter().collect();
            }
        }
        let sites: usize = self.cores.iter().map(|core| core.sites.len()).sum();
        (self.floor, self.over) = (tasks.len() / sites, tasks.len() % sites);
        let at = |level| self.cores.iter().map(|core| self.bounded(core, level)).sum::<usize>();
        self.level = (0..tasks.len()).take_while(|level| at(level + 1) <= tasks.len()).count();
    }

    /// Returns the number of tasks of a core nearest to `level` with which its sites are even.
    fn bounded(&self, core: &Core, level: usize) -> usize {
        let least = core.sites.len() * self.floor;
        level.clamp(least, least + core.sites.len() * usize::from(self.over > 0))
    }

    /// Returns the fewest tasks of a core.
    fn least(&self, core: &Core) -> usize {
        self.bounded(core, self.level)
    }

    /// Returns the most tasks of a core.
    fn most(&self, core: &Core) -> usize {
        self.bounded(core, self.level + 1)
    }

    /// Returns the cores of each node, as ranges.
    fn nodes(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let starts = std::iter::once(0).chain(self.node_ends.iter().copied());
        starts.zip(&self.node_ends).map(|(start, &end)| start..end)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
