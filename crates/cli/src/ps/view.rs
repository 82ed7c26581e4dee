//! The fibers of a process, as text.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Write},
    rc::Rc,
};

use daiko_inspect::{
    Alike, Backtracer, FiberRow, FiberState, Frame, Reader, RuntimeRow, Stack, Subject, Symbols,
    group, stack_of, without_runtime,
};

use crate::args::{PsRequest, StackStyle};

/// The fibers of one release of the runtime in a process.
pub(super) struct View<'s> {
    pub(super) name: &'s str,
    pub(super) release: &'s str,
    pub(super) counter_names: &'s [String],
    pub(super) runtimes: Vec<RuntimeRow>,
    pub(super) fibers: Vec<FiberRow>,
    /// The stack of each fiber, if stacks were asked for.
    pub(super) stacks: Option<Vec<Stack>>,
    /// The functions at each address of a stack.
    frames: HashMap<u64, Rc<[Frame]>>,
    /// True if stacks have the runtime's own functions as well.
    full: bool,
    /// The index of each worker.
    workers: HashMap<u64, u32>,
    /// The position of each fiber, by its id.
    index: HashMap<u64, usize>,
}

impl<'s> View<'s> {
    pub(super) fn of(
        subject: &'s Subject,
        reader: &'s Reader<&'s Subject>,
        request: &PsRequest,
    ) -> Self {
        let (runtimes, mut fibers) = reader.all();
        if !request.states.is_empty() {
            fibers.retain(|fiber| request.states.contains(&fiber.state));
        }
        let stacks = request.stacks.map(|_| {
            let mut backtracer = Backtracer::new(subject);
            let fibers = fibers.iter_mut();
            fibers.map(|fiber| stack_of(reader, &runtimes, &mut backtracer, fiber)).collect()
        });
        let all_workers = runtimes.iter().flat_map(|runtime| &runtime.workers);
        let workers = all_workers.map(|worker| (worker.id, worker.index)).collect();
        let index = fibers.iter().enumerate().map(|(at, fiber)| (fiber.id, at)).collect();
        let frames = symbols_of(subject, stacks.as_deref().unwrap_or_default());
        let (name, release, counter_names) =
            (subject.name(), reader.release(), reader.counter_names());
        View {
            name,
            release,
            counter_names,
            runtimes,
            fibers,
            stacks,
            frames,
            full: request.full,
            workers,
            index,
        }
    }

    pub(super) fn print(&self, style: Option<StackStyle>, out: &mut dyn Write) -> io::Result<()> {
        match (style, &self.stacks) {
            (Some(StackStyle::Folded), Some(stacks)) => self.print_folded(stacks, out),
            (Some(StackStyle::Unique), Some(stacks)) => {
                self.print_head(out)?;
                self.print_unique(stacks, out)
            }
            (Some(StackStyle::Each), Some(stacks)) => {
                self.print_head(out)?;
                self.print_each(stacks, out)
            }
            _ => {
                self.print_head(out)?;
                self.print_rows(out)
            }
        }
    }

    /// Prints the numbers of runtimes, workers and fibers.
    fn print_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let workers = self.runtimes.iter().flat_map(|runtime| &runtime.workers);
        let (started, stuck) =
            workers.filter(|worker| worker.thread != 0).fold((0, 0), |(started, stuck), worker| {
                (started + 1, stuck + usize::from(worker.is_stuck))
            });
        write!(
            out,
            "{}: release {}, {}, {}, {}",
            self.name,
            self.release,
            Counted(self.runtimes.len(), "runtime"),
            Counted(started, "worker"),
            Counted(self.fibers.len(), "fiber")
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

    fn print_rows(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.fibers.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "{:<14}  {:<9}  {:>6}  {:<20}  {:<28}  SPAWNED AT",
            "FIBER", "STATE", "WORKER", "NAME", "WAITS FOR"
        )?;
        for fiber in &self.fibers {
            let worker = fiber.worker.and_then(|worker| self.workers.get(&worker));
            let worker = worker.map_or("-".to_owned(), u32::to_string);
            let wait = self.wait(fiber).unwrap_or_default();
            writeln!(
                out,
                "{:<#14x}  {:<9}  {worker:>6}  {:<20}  {wait:<28}  {}",
                fiber.id,
                fiber.state.name(),
                label(fiber),
                spawned_at(fiber),
            )?;
        }
        Ok(())
    }

    fn print_each(&self, stacks: &[Stack], out: &mut dyn Write) -> io::Result<()> {
        for (fiber, stack) in self.fibers.iter().zip(stacks) {
            writeln!(out)?;
            write!(out, "fiber {:#x}", fiber.id)?;
            if fiber.name.is_some() || fiber.thread.is_some() {
                write!(out, " {}", label(fiber))?;
            }
            write!(out, ", {}", fiber.state.name())?;
            if let Some(wait) = self.wait(fiber) {
                write!(out, ": {wait}")?;
            }
            writeln!(out, ", spawned at {}", spawned_at(fiber))?;
            self.print_stack(stack, out)?;
        }
        Ok(())
    }

    fn print_unique(&self, stacks: &[Stack], out: &mut dyn Write) -> io::Result<()> {
        for Alike { fibers, stack } in group(&self.fibers, stacks) {
            let of = |at: usize| &self.fibers[at];
            let first = of(fibers[0]);
            let is_same = |same: &dyn Fn(&FiberRow) -> bool| fibers.iter().all(|&at| same(of(at)));
            writeln!(out)?;
            write!(out, "{} {}", Counted(fibers.len(), "fiber"), first.state.name())?;
            if let Some(wait) = &first.wait {
                match is_same(&|fiber| fiber.wait == first.wait) {
                    true => write!(out, ": {}", self.wait(first).unwrap_or_default())?,
                    false => write!(out, ": {}", wait.kind)?,
                }
            }
            match is_same(&|fiber| fiber.spawned_at == first.spawned_at) {
                true => write!(out, ", spawned at {}", spawned_at(first))?,
                false => write!(out, ", spawned at {} and elsewhere", spawned_at(first))?,
            }
            let names: Vec<_> =
                fibers.iter().filter_map(|&at| of(at).name.as_deref()).take(3).collect();
            if !names.is_empty() {
                let more = if names.len() < fibers.len() { ", .." } else { "" };
                write!(out, " ({}{more})", names.join(", "))?;
            }
            writeln!(out)?;
            self.print_stack(&stack, out)?;
        }
        Ok(())
    }

    fn print_stack(&self, stack: &Stack, out: &mut dyn Write) -> io::Result<()> {
        if *stack == Stack::Runs {
            return writeln!(out, "    it ran at each look");
        }
        for frame in self.frames(stack) {
            match &frame.line {
                Some((file, line)) => writeln!(out, "    {} at {file}:{line}", frame.function)?,
                None => writeln!(out, "    {}", frame.function)?,
            }
        }
        Ok(())
    }

    /// Prints a line for each group of equal stacks: the functions from the outermost to the
    /// innermost, and the number of fibers.
    fn print_folded(&self, stacks: &[Stack], out: &mut dyn Write) -> io::Result<()> {
        for Alike { fibers, stack } in group(&self.fibers, stacks) {
            let first = &self.fibers[fibers[0]];
            let frames = self.frames(&stack);
            let mut names: Vec<_> =
                frames.iter().rev().map(|frame| frame.function.replace(';', ":")).collect();
            let kind = first.wait.as_ref().map_or(first.state.name(), |wait| &wait.kind);
            names.push(format!("[{kind}]"));
            writeln!(out, "{} {}", names.join(";"), fibers.len())?;
        }
        Ok(())
    }

    /// Returns the functions of a stack, the innermost first.
    pub(super) fn frames(&self, stack: &Stack) -> Vec<Frame> {
        let addresses = match stack {
            Stack::Frames(addresses) => &addresses[..],
            Stack::None | Stack::Runs => &[],
        };
        let frames = addresses.iter().flat_map(|address| self.frames[address].iter().cloned());
        let frames: Vec<_> = frames.collect();
        if self.full { frames } else { without_runtime(&frames).to_vec() }
    }

    /// Describes the target of a wait.
    pub(super) fn wait(&self, fiber: &FiberRow) -> Option<String> {
        let wait = fiber.wait.as_ref()?;
        let joined = (&*wait.kind == "join").then(|| self.index.get(&wait.object)).flatten();
        Some(match joined.map(|&at| &self.fibers[at]) {
            Some(FiberRow { name: Some(name), .. }) => format!("the end of fiber '{name}'"),
            _ if wait.object == 0 => wait.kind.to_string(),
            _ => format!("{} {:#x}", wait.kind, wait.object),
        })
    }

    /// Returns the index of the worker that has the fiber.
    pub(super) fn worker(&self, fiber: &FiberRow) -> Option<u32> {
        self.workers.get(&fiber.worker?).copied()
    }
}

/// Returns the functions at each address of the stacks.
fn symbols_of(subject: &Subject, stacks: &[Stack]) -> HashMap<u64, Rc<[Frame]>> {
    let (mut symbols, mut frames) = (Symbols::new(subject), HashMap::new());
    for stack in stacks {
        let Stack::Frames(addresses) = stack else { continue };
        for (at, &address) in addresses.iter().enumerate() {
            frames.entry(address).or_insert_with(|| symbols.frames(address, at > 0));
        }
    }
    frames
}

/// Returns the name of a fiber, or the thread that it is.
fn label(fiber: &FiberRow) -> String {
    match (&fiber.name, fiber.thread) {
        (Some(name), _) => format!("'{name}'"),
        (None, Some(thread)) => format!("thread {thread}"),
        (None, None) if fiber.is_lent => "a thread".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn spawned_at(fiber: &FiberRow) -> String {
    fiber.spawned_at.as_ref().map_or_else(|| "?".to_owned(), |place| place.to_string())
}

/// A number of things, with their name.
struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(count, thing) = self;
        write!(f, "{count} {thing}{}", if *count == 1 { "" } else { "s" })
    }
}
