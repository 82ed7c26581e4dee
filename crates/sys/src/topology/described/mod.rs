//! Descriptions of machines in a few words, in the kernel's format: for tests of code that reads a
//! [`Topology`].
//!
//! The first word is the shape, packages x cores x threads: `2x4x2`, of up to 1024 CPUs. Cores of
//! several kinds are joined by `+`: `1x8x2+4x1e` has 4 efficient cores like a hybrid x86, and
//! `1x4x1@1024+4x1@446` has capacities like ARM.
//!
//! Other words, in any order:
//!
//! - `order=tpc`: order of CPU numbers, from the slowest changing part to the fastest, of thread,
//!   package and core; by default `tpc`: siblings n, n+N.
//! - `ids=0-3,8-11`: the numbers of the CPUs in that order, which may have holes; by default from
//!   0.
//! - `offline=3,7`: CPUs that are switched off; by default none.
//! - `smt=off`: all but the first CPU of each core are switched off; by default `smt=on`.
//! - `allowed=0-1`: the affinity mask and the cpuset; by default all.
//! - `nodes=4`: NUMA nodes, which divide all cores evenly; by default one per package.
//! - `node-ids=0,8`: the numbers of the nodes, followed by those of nodes with memory only; by
//!   default from 0.
//! - `l3=4`: number of cores that share an L3 within a package; by default all of the package.
//! - `without=nodes,caches`: parts that the kernel leaves out, by default none: `nodes`, `caches`,
//!   `sizes` (of caches), `packages` (their numbers are -1), `new-names` (of lists, before Linux
//!   5.3), `smt` (its control), `mask`.

mod sysfs;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Topology, TopologyError};
use crate::cpu::CpuSet;

/// Largest number of CPUs, as every file lists some of them.
const MOST: usize = 1024;

/// The files of a machine's description.
///
/// # Examples
///
/// ```
/// use daiko_sys::topology::described::Described;
///
/// let machine = Described::parse("1x2x2 offline=3")?.topology()?;
/// assert_eq!(machine.siblings(0).to_string(), "0,2");
/// assert_eq!(machine.siblings(1).to_string(), "1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Texts by absolute path.
    files: BTreeMap<PathBuf, String>,
}

/// A word that describes no machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedError(String);

impl fmt::Display for DescribedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} describes no machine: give a shape like 2x4x2, then options", self.0)
    }
}

impl std::error::Error for DescribedError {}

impl Described {
    /// Describes a machine in the words that the module documents.
    ///
    /// # Errors
    ///
    /// [`DescribedError`] with the word that is unknown or contradicts another word.
    pub fn parse(text: &str) -> Result<Self, DescribedError> {
        let machine: DescribedMachine = text.parse()?;
        Ok(Self { files: sysfs::files(&machine) })
    }

    /// The topology that is read from these files.
    ///
    /// # Errors
    ///
    /// [`TopologyError`] if no CPU is both online and allowed, or files were changed.
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        let read =
            |path: &Path| self.files.get(path).cloned().ok_or(io::ErrorKind::NotFound.into());
        Topology::read_from(Path::new("/"), &read, None)
    }

    /// Writes `text` to the file at that absolute path, whether or not it exists.
    pub fn set(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.files.insert(path.into(), text.into());
    }

    /// Removes the file, or all files in the folder, at that absolute path.
    pub fn remove(&mut self, path: impl AsRef<Path>) {
        self.files.retain(|file, _| !file.starts_with(&path));
    }

    /// Writes the files below `root`, which has none of them.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn write_to(&self, root: &Path) -> io::Result<()> {
        for (path, text) in &self.files {
            let file = root.join(path.strip_prefix("/").expect("paths are absolute"));
            fs::create_dir_all(file.parent().expect("a file is in a folder"))?;
            fs::write(file, text)?;
        }
        Ok(())
    }
}

/// A machine with all its CPUs switched on.
#[derive(Debug)]
struct DescribedMachine {
    packages: usize,
    /// The kinds of cores of each package, in order.
    kinds: Vec<CoreKind>,
    order: Order,
    ids: Option<CpuSet>,
    offline: CpuSet,
    smt: bool,
    allowed: Option<CpuSet>,
    nodes: usize,
    node_ids: Option<CpuSet>,
    /// Number of cores that share an L3.
    l3: usize,
    without: Vec<Without>,
}

/// Equal cores.
#[derive(Debug)]
struct CoreKind {
    cores: usize,
    threads: usize,
    rank: Rank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Fast,
    /// Marked as efficient, without a figure, as on x86.
    Efficient,
    /// Capacity in 1024ths.
    Capacity(u32),
}

/// Order of numbering, from the slowest changing part to the fastest.
#[derive(Debug)]
struct Order([Counter; 3]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counter {
    Package,
    Core,
    Thread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nodes,
    Caches,
    Sizes,
    Packages,
    NewNames,
    Smt,
    Mask,
}

impl FromStr for DescribedMachine {
    type Err = DescribedError;

    fn from_str(text: &str) -> Result<Self, DescribedError> {
        let mut words = text.split_ascii_whitespace();
        let shape = words.next().unwrap_or_default();
        let mut machine = Self::of_shape(shape).ok_or_else(|| DescribedError(shape.into()))?;
        for word in words {
            machine.option(word).ok_or_else(|| DescribedError(word.into()))?;
        }
        let fits = machine.ids.as_ref().is_none_or(|ids| ids.len() == machine.most_cpus())
            && machine.node_ids.as_ref().is_none_or(|ids| ids.len() >= machine.nodes)
            && machine.nodes <= machine.packages * machine.cores();
        fits.then_some(machine).ok_or_else(|| DescribedError(text.into()))
    }
}

impl DescribedMachine {
    fn of_shape(shape: &str) -> Option<Self> {
        let (packages, kinds) = shape.split_once('x')?;
        let packages = count(packages)?;
        let kinds: Vec<CoreKind> = kinds.split('+').map(CoreKind::parse).collect::<Option<_>>()?;
        let machine = Self {
            packages,
            kinds,
            order: Order([Counter::Thread, Counter::Package, Counter::Core]),
            ids: None,
            offline: CpuSet::new(),
            smt: true,
            allowed: None,
            nodes: packages,
            node_ids: None,
            l3: usize::MAX,
            without: Vec::new(),
        };
        (machine.most_cpus() <= MOST).then_some(machine)
    }

    fn option(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        match name {
            "order" => self.order = Order::parse(value)?,
            "ids" => self.ids = Some(value.parse().ok()?),
            "offline" => self.offline = value.parse().ok()?,
            "smt" => self.smt = on(value)?,
            "allowed" => self.allowed = Some(value.parse().ok()?),
            "nodes" => self.nodes = count(value)?,
            "node-ids" => self.node_ids = Some(value.parse().ok()?),
            "l3" => self.l3 = count(value)?,
            "without" => {
                self.without = value.split(',').map(Without::parse).collect::<Option<_>>()?;
            }
            _ => return None,
        }
        Some(())
    }

    /// The number of cores of a package.
    fn cores(&self) -> usize {
        self.kinds.iter().map(|kind| kind.cores).sum()
    }

    fn most_cpus(&self) -> usize {
        self.packages * self.kinds.iter().map(|kind| kind.cores * kind.threads).sum::<usize>()
    }

    fn says(&self, detail: Without) -> bool {
        !self.without.contains(&detail)
    }
}

impl CoreKind {
    fn parse(text: &str) -> Option<Self> {
        let (cores, rest) = text.split_once('x')?;
        let (threads, rank) = if let Some(threads) = rest.strip_suffix('e') {
            (threads, Rank::Efficient)
        } else if let Some((threads, capacity)) = rest.split_once('@') {
            (threads, Rank::Capacity(capacity.parse().ok()?))
        } else {
            (rest, Rank::Fast)
        };
        Some(Self { cores: count(cores)?, threads: count(threads)?, rank })
    }
}

impl Order {
    fn parse(text: &str) -> Option<Self> {
        let counter = |letter| match letter {
            'p' => Some(Counter::Package),
            'c' => Some(Counter::Core),
            't' => Some(Counter::Thread),
            _ => None,
        };
        let counters: Vec<Counter> = text.chars().map(counter).collect::<Option<_>>()?;
        let order: [Counter; 3] = counters.try_into().ok()?;
        let mut each = order;
        each.sort();
        (each == [Counter::Package, Counter::Core, Counter::Thread]).then_some(Self(order))
    }
}

impl Without {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "nodes" => Self::Nodes,
            "caches" => Self::Caches,
            "sizes" => Self::Sizes,
            "packages" => Self::Packages,
            "new-names" => Self::NewNames,
            "smt" => Self::Smt,
            "mask" => Self::Mask,
            _ => return None,
        })
    }
}

fn on(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Parses a count of at least one, small enough that products of counts do not overflow.
fn count(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|count| (1..=MOST).contains(count))
}
