//! The fibers of a process as text, for terminals and logs.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use super::memory::Memory;
use super::reader::Reader;
use super::row::{FiberRow, FiberState, RuntimeRow};

/// Most names of a group of fibers.
const MOST_NAMES: usize = 3;

/// All runtimes and fibers of a process, each at a moment of its own.
pub struct Listing {
    /// The process, as messages name it.
    pub name: String,
    /// The version of its runtime.
    pub release: String,
    /// The runtimes.
    pub runtimes: Vec<RuntimeRow>,
    /// The fibers.
    pub fibers: Vec<FiberRow>,
    /// The index of each worker.
    workers: HashMap<u64, u32>,
    /// The position of each fiber, by its id.
    index: HashMap<u64, usize>,
}

impl Listing {
    /// Reads the fibers that `is_wanted`.
    pub fn read<M: Memory>(
        name: &str,
        reader: &Reader<M>,
        is_wanted: impl Fn(&FiberRow) -> bool,
    ) -> Self {
        let (runtimes, mut fibers) = reader.all();
        fibers.retain(is_wanted);
        let all_workers = runtimes.iter().flat_map(|runtime| &runtime.workers);
        let workers = all_workers.map(|worker| (worker.id, worker.index)).collect();
        let index = fibers.iter().enumerate().map(|(at, fiber)| (fiber.id, at)).collect();
        let release = reader.release().to_owned();
        Listing { name: name.to_owned(), release, runtimes, fibers, workers, index }
    }

    /// Writes the numbers of runtimes, workers and fibers in one line.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let workers = self.runtimes.iter().flat_map(|runtime| &runtime.workers);
        let started: Vec<_> = workers.filter(|worker| worker.thread != 0).collect();
        let stuck = started.iter().filter(|worker| worker.is_stuck).count();
        let (runtimes, workers, fibers) = (self.runtimes.len(), started.len(), self.fibers.len());
        write!(
            out,
            "{}: release {}, {}, {}, {}",
            self.name,
            self.release,
            Counted(runtimes, "runtime"),
            Counted(workers, "worker"),
            Counted(fibers, "fiber")
        )?;
        let mut before = ": ";
        for state in FiberState::ALL {
            let count = self.fibers.iter().filter(|fiber| fiber.state == state).count();
            if count > 0 {
                write!(out, "{before}{count} {}", state.name())?;
                before = ", ";
            }
        }
        if stuck > 0 {
            write!(out, "; {} stuck in a fiber", Counted(stuck, "worker"))?;
        }
        writeln!(out)
    }

    /// Writes a line for each fiber.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_rows(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.fibers.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "{:<14}  {:<9}  {:>6}  {:<20}  {:<28}  SPAWNED AT",
            "FIBER", "STATE", "WORKER", "NAME", "WAITS FOR"
        )?;
        for fiber in &self.fibers {
            let worker = self.worker(fiber).map_or("-".to_owned(), |worker| worker.to_string());
            let wait = self.wait(fiber).unwrap_or_default();
            writeln!(
                out,
                "{:<#14x}  {:<9}  {worker:>6}  {:<20}  {wait:<28}  {}",
                fiber.id,
                fiber.state.name(),
                fiber.label().unwrap_or("-".to_owned()),
                fiber.spawn_place(),
            )?;
        }
        Ok(())
    }

    /// Writes a line for each group of fibers that were spawned at one place and are in one state,
    /// for one object: the smallest groups first, as these hold up the others.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_groups(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut groups: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, fiber) in self.fibers.iter().enumerate() {
            let key = (fiber.state, &fiber.wait, &fiber.spawned_at);
            groups.entry(key).or_default().push(at);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| (group.len(), group[0]));
        groups.iter().try_for_each(|group| self.write_group(group, true, out))
    }

    /// Writes a line for fibers that are in one state, by their positions; `for_one_object` says
    /// that all wait for the same object.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_group(
        &self,
        group: &[usize],
        for_one_object: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(&first) = group.first() else { return Ok(()) };
        let first = &self.fibers[first];
        write!(out, "{} {}", Counted(group.len(), "fiber"), first.state.name())?;
        match (&first.wait, self.wait(first)) {
            (_, Some(wait)) if for_one_object => write!(out, ": {wait}")?,
            (Some(wait), _) => write!(out, ": {}", wait.kind)?,
            _ => {}
        }
        write!(out, ", spawned at {}", first.spawn_place())?;
        if group.iter().any(|&at| self.fibers[at].spawned_at != first.spawned_at) {
            write!(out, " and elsewhere")?;
        }
        let names = group.iter().filter_map(|&at| self.fibers[at].label());
        let names: Vec<_> = names.take(MOST_NAMES).collect();
        if !names.is_empty() {
            let more = if names.len() < group.len() { ", .." } else { "" };
            write!(out, " ({}{more})", names.join(", "))?;
        }
        writeln!(out)
    }

    /// Describes the target of a wait.
    pub fn wait(&self, fiber: &FiberRow) -> Option<String> {
        let wait = fiber.wait.as_ref()?;
        let joined = (&*wait.kind == "join").then(|| self.index.get(&wait.object)).flatten();
        Some(match joined.map(|&at| &self.fibers[at]) {
            Some(FiberRow { name: Some(name), .. }) => format!("the end of fiber '{name}'"),
            _ if wait.object == 0 => wait.kind.to_string(),
            _ => format!("{} {:#x}", wait.kind, wait.object),
        })
    }

    /// Returns the index of the worker that has the fiber.
    pub fn worker(&self, fiber: &FiberRow) -> Option<u32> {
        self.workers.get(&fiber.worker?).copied()
    }
}

impl FiberRow {
    /// Returns the name in quotes, or the thread that it is.
    pub fn label(&self) -> Option<String> {
        match (&self.name, self.thread) {
            (Some(name), _) => Some(format!("'{name}'")),
            (None, Some(thread)) => Some(format!("thread {thread}")),
            (None, None) => self.is_lent.then(|| "a thread".to_owned()),
        }
    }

    /// Returns the place of the spawn as text.
    pub fn spawn_place(&self) -> String {
        self.spawned_at.as_ref().map_or_else(|| "?".to_owned(), |place| place.to_string())
    }
}

/// A number of things, with their name.
struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(count, thing) = self;
        write!(f, "{count} {thing}{}", if *count == 1 { "" } else { "s" })
    }
}
