//! The fibers of a process with their stacks, as text.

use std::{
    collections::HashMap,
    io::{self, Write},
    rc::Rc,
};

use daiko_inspect::{
    Alike, Backtracer, Frame, Listing, Reader, Stack, Subject, Symbols, group, stack_of,
    without_runtime,
};

use crate::args::{PsRequest, StackStyle};

/// The fibers of one release of the runtime in a process.
pub(super) struct View<'s> {
    pub(super) listing: Listing,
    pub(super) counter_names: &'s [String],
    /// The stack of each fiber, if stacks were asked for.
    pub(super) stacks: Option<Vec<Stack>>,
    /// The functions at each address of a stack.
    frames: HashMap<u64, Rc<[Frame]>>,
    /// True if stacks have the runtime's own functions as well.
    full: bool,
}

impl<'s> View<'s> {
    pub(super) fn of(
        subject: &'s Subject,
        reader: &'s Reader<&'s Subject>,
        request: &PsRequest,
    ) -> Self {
        let states = &request.states;
        let mut listing = Listing::read(subject.name(), reader, |fiber| {
            states.is_empty() || states.contains(&fiber.state)
        });
        let stacks = request.stacks.map(|_| {
            let mut backtracer = Backtracer::new(subject);
            let (runtimes, fibers) = (&listing.runtimes, listing.fibers.iter_mut());
            fibers.map(|fiber| stack_of(reader, runtimes, &mut backtracer, fiber)).collect()
        });
        let frames = symbols_of(subject, stacks.as_deref().unwrap_or_default());
        let counter_names = reader.counter_names();
        View { listing, counter_names, stacks, frames, full: request.full }
    }

    pub(super) fn print(&self, style: Option<StackStyle>, out: &mut dyn Write) -> io::Result<()> {
        match (style, &self.stacks) {
            (Some(StackStyle::Folded), Some(stacks)) => self.print_folded(stacks, out),
            (Some(StackStyle::Unique), Some(stacks)) => {
                self.listing.write_head(out)?;
                self.print_unique(stacks, out)
            }
            (Some(StackStyle::Each), Some(stacks)) => {
                self.listing.write_head(out)?;
                self.print_each(stacks, out)
            }
            _ => {
                self.listing.write_head(out)?;
                self.listing.write_rows(out)
            }
        }
    }

    fn print_each(&self, stacks: &[Stack], out: &mut dyn Write) -> io::Result<()> {
        for (fiber, stack) in self.listing.fibers.iter().zip(stacks) {
            write!(out, "\nfiber {:#x}", fiber.id)?;
            if let Some(label) = fiber.label() {
                write!(out, " {label}")?;
            }
            write!(out, ", {}", fiber.state.name())?;
            if let Some(wait) = self.listing.wait(fiber) {
                write!(out, ": {wait}")?;
            }
            writeln!(out, ", spawned at {}", fiber.spawn_place())?;
            self.print_stack(stack, out)?;
        }
        Ok(())
    }

    fn print_unique(&self, stacks: &[Stack], out: &mut dyn Write) -> io::Result<()> {
        let rows = &self.listing.fibers;
        for Alike { fibers, stack } in group(rows, stacks) {
            writeln!(out)?;
            let is_same = fibers.iter().all(|&at| rows[at].wait == rows[fibers[0]].wait);
            self.listing.write_group(&fibers, is_same, out)?;
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
        for Alike { fibers, stack } in group(&self.listing.fibers, stacks) {
            let first = &self.listing.fibers[fibers[0]];
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
        let frames =
            stack.addresses().iter().flat_map(|address| self.frames[address].iter().cloned());
        let frames: Vec<_> = frames.collect();
        if self.full { frames } else { without_runtime(&frames).to_vec() }
    }
}

/// Returns the functions at each address of the stacks.
fn symbols_of(subject: &Subject, stacks: &[Stack]) -> HashMap<u64, Rc<[Frame]>> {
    let (mut symbols, mut frames) = (Symbols::new(subject), HashMap::new());
    for stack in stacks {
        for (at, &address) in stack.addresses().iter().enumerate() {
            frames.entry(address).or_insert_with(|| symbols.frames(address, at > 0));
        }
    }
    frames
}
