//! P4's placement of tasks: two cores, each with two hardware threads.

use daiko_sys::topology::{Cpu, Topology};

use crate::kit::{Choice, Skip};

/// Work of all CPU tasks of a setting together, in units of one CPU task.
const WORK: u64 = 2;

/// A placement of two stalling (IO) and two computing (CPU) tasks on two cores.
///
/// # Examples
///
/// ```
/// use daiko_lab::experiments::smt::{Cores, Pair, Setting};
///
/// let cores = Cores([[0, 4], [1, 5]]);
/// assert_eq!(Setting::Cross.pairs(&cores), [Pair { io: 0, cpu: 4 }, Pair { io: 1, cpu: 5 }]);
/// assert_eq!(Setting::NoSmt.pairs(&cores), [Pair { io: 0, cpu: 1 }]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// One task of each kind on each core: P4's proposal.
    Cross,
    /// Both IO tasks on one core, both CPU tasks on the other.
    Parallel,
    /// One IO task on one core, one CPU task on the other; their siblings stay idle.
    NoSmt,
    /// Like `Cross`, but both tasks of a core share one hardware thread, divided by the kernel.
    NoSmt2tCross,
    /// Like `Parallel`, with shared hardware threads as in `NoSmt2tCross`.
    NoSmt2tParallel,
}

/// Two cores of one package, each with two of its hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores(pub [[usize; 2]; 2]);

/// The CPUs of an IO task and of its CPU task. The IO task ends when the CPU task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// CPU of the IO task.
    pub io: usize,
    /// CPU of the CPU task.
    pub cpu: usize,
}

impl Choice for Setting {
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Cross, "cross"),
        (Self::Parallel, "parallel"),
        (Self::NoSmt, "nosmt"),
        (Self::NoSmt2tCross, "nosmt-2t-cross"),
        (Self::NoSmt2tParallel, "nosmt-2t-parallel"),
    ];
}

impl Setting {
    /// CPUs of the tasks.
    pub fn pairs(self, cores: &Cores) -> Vec<Pair> {
        let [one, two] = cores.0;
        let pair = |io, cpu| Pair { io, cpu };
        match self {
            Self::Cross => vec![pair(one[0], one[1]), pair(two[0], two[1])],
            Self::Parallel => vec![pair(one[0], two[0]), pair(one[1], two[1])],
            Self::NoSmt => vec![pair(one[0], two[0])],
            Self::NoSmt2tCross => vec![pair(one[0], one[0]), pair(two[0], two[0])],
            Self::NoSmt2tParallel => vec![pair(one[0], two[0]); 2],
        }
    }

    /// How often each CPU task does its work, so that all settings do the same amount: a single
    /// task does the work of two.
    pub fn work(self) -> u64 {
        match self {
            Self::NoSmt => WORK,
            _ => 1,
        }
    }

    /// Whether each task has a hardware thread to itself.
    pub fn has_threads_alone(self) -> bool {
        !matches!(self, Self::NoSmt2tCross | Self::NoSmt2tParallel)
    }
}

impl Cores {
    /// Finds the last two cores of a package and NUMA node that have two allowed hardware threads
    /// each. The kernel's own work is mostly on the first cores.
    ///
    /// # Errors
    /// Returns the reason why there are none, and the remedy.
    pub fn find(machine: &Topology) -> Result<Self, Skip> {
        let mut found: Vec<(&Cpu, [usize; 2])> =
            (0..machine.cores()).filter_map(|core| siblings(machine, core)).collect();
        if found.is_empty() {
            let why = machine.smt();
            return Err(Skip::new(format!("{why}; daiko lab run smt-model predicts instead")));
        }
        while let Some((last, threads)) = found.pop() {
            let near = |(cpu, _): &&(&Cpu, _)| {
                (cpu.package, cpu.node, cpu.capacity) == (last.package, last.node, last.capacity)
            };
            if let Some((_, partner)) = found.iter().rfind(near) {
                return Ok(Self([*partner, threads]));
            }
        }
        Err(Skip::new(
            "no two cores of one package and speed have two CPUs each that this process may use: allow more by taskset",
        ))
    }
}

/// The first CPU of a core, and its first two allowed CPUs.
fn siblings(machine: &Topology, core: usize) -> Option<(&Cpu, [usize; 2])> {
    let threads = machine.core(core);
    let mut allowed = threads.iter().filter(|id| machine.allowed().contains(*id));
    let two = [allowed.next()?, allowed.next()?];
    Some((machine.cpu(two[0])?, two))
}

#[cfg(test)]
mod tests {
    use daiko_sys::topology::described::Described;

    use super::*;

    const CORES: Cores = Cores([[0, 2], [1, 3]]);

    /// Number of IO tasks and of CPU tasks on each hardware thread.
    fn load(setting: Setting) -> [[usize; 2]; 4] {
        let mut load = [[0; 2]; 4];
        for Pair { io, cpu } in setting.pairs(&CORES) {
            load[io][0] += 1;
            load[cpu][1] += 1;
        }
        load
    }

    #[test]
    fn every_setting_is_as_p4_draws_it() {
        let (io, cpu, none) = ([1, 0], [0, 1], [0, 0]);
        assert_eq!(load(Setting::Cross), [io, io, cpu, cpu]);
        assert_eq!(load(Setting::Parallel), [io, cpu, io, cpu]);
        assert_eq!(load(Setting::NoSmt), [io, cpu, none, none]);
        assert_eq!(load(Setting::NoSmt2tCross), [[1, 1], [1, 1], none, none]);
        assert_eq!(load(Setting::NoSmt2tParallel), [[2, 0], [0, 2], none, none]);
    }

    #[test]
    fn all_settings_do_the_same_work() {
        for setting in Setting::all() {
            let tasks = setting.pairs(&CORES).len() as u64;
            assert_eq!(tasks * setting.work(), WORK, "{}", setting.name());
            assert_eq!(Setting::from_name(setting.name()), Some(setting));
        }
        assert_eq!(Setting::from_name("nonsense"), None);
    }

    fn found(machine: &str) -> Result<Cores, String> {
        let machine = Described::parse(machine).expect("a machine").topology().expect("CPUs");
        Cores::find(&machine).map_err(|skip| skip.reason)
    }

    #[test]
    fn the_last_two_cores_of_a_package_are_taken() {
        for (machine, cores) in [
            ("1x2x2", [[0, 2], [1, 3]]),
            ("1x2x2 order=pct", [[0, 1], [2, 3]]),
            ("2x4x2", [[6, 14], [7, 15]]),
            ("1x4x2 offline=7", [[1, 5], [2, 6]]),
            ("1x4x2 allowed=0-1,4-6", [[0, 4], [1, 5]]),
            ("1x2x4", [[0, 2], [1, 3]]),
            ("1x4x2+4x1e", [[2, 10], [3, 11]]),
        ] {
            assert_eq!(found(machine), Ok(Cores(cores)), "{machine}");
        }
    }

    #[test]
    fn where_there_are_none_the_remedy_is_told() {
        for (machine, told) in [
            ("1x4x1", "no core has siblings: "),
            ("1x1x1", "no core has siblings: "),
            (
                "1x4x2 smt=off",
                "write 'on' to /sys/devices/system/cpu/smt/control; daiko lab run smt-model",
            ),
            ("1x4x2 allowed=0-3", "of no core are two siblings allowed: allow them"),
            ("1x4x2 allowed=0,1,4", "no two cores of one package"),
            ("2x1x2", "no two cores of one package"),
        ] {
            let reason = found(machine).unwrap_err();
            assert!(reason.contains(told), "{machine}: {reason}");
        }
    }
}
