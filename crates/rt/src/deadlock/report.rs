//! The report of a deadlock.

use std::fmt;
use std::ops::Range;
use std::panic::Location;

/// The fibers of a runtime that wait for events that cannot come, as reported to
/// [`RuntimeBuilder::on_deadlock`](crate::RuntimeBuilder::on_deadlock).
///
/// Its [`Display`](fmt::Display) is a text of a line for each fiber; fibers without a name that
/// were spawned at one place, and wait alike, share a line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// The fibers that wait: those of cycles first, then at most 64 more, of which the
    /// first for each object that is waited for come first.
    pub fibers: Vec<WaitingFiber>,
    /// Ranges of `fibers`. In each, every fiber waits for the next, and the last for the first.
    pub cycles: Vec<Range<usize>>,
    /// Number of fibers that wait as well and are not listed.
    pub unlisted: usize,
    /// Number of threads that might still wake the fibers that are in no cycle. Without a cycle
    /// there are none.
    pub other_threads: usize,
}

/// A fiber of a [`Deadlock`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingFiber {
    /// The id that distinguishes it from all other fibers while it lives.
    pub id: usize,
    /// Its name.
    pub name: Option<String>,
    /// The source location that spawned it.
    pub spawned_at: &'static Location<'static>,
    /// The target of its wait.
    pub waits_for: Awaited,
}

/// The target of the wait of a fiber of a [`Deadlock`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Awaited {
    /// The kind: `"Mutex"`, `"join"`, `"park"` and so on.
    pub kind: &'static str,
    /// The address of the object, if there is one; for a joined fiber: its id.
    pub address: Option<usize>,
    /// The holder, if known: of a lock (for writing, if there is a choice), the fiber that runs a
    /// one-time initialization, or the fiber that is to end.
    pub held_by: Option<Holder>,
}

/// The holder of an object that a fiber of a [`Deadlock`] waits for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// The fiber's id; `None`: it is a thread that runs no fiber.
    pub fiber: Option<usize>,
    /// The name of the fiber or thread. That of another runtime's fiber is not known.
    pub name: Option<String>,
    /// The source location that locked it.
    pub locked_at: Option<&'static Location<'static>>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.fibers.len() + self.unlisted;
        write!(f, "daiko: deadlock: {all} fibers wait")?;
        match self.other_threads {
            0 => f.write_str(", and nothing can wake any of them")?,
            1 => f.write_str("; 1 thread that is no worker could still wake some")?,
            n => write!(f, "; {n} threads that are no workers could still wake some")?,
        }
        for cycle in &self.cycles {
            write!(f, "\n  in a cycle, which nothing can wake:")?;
            self.fibers[cycle.clone()].iter().try_for_each(|fiber| write!(f, "\n    {fiber}"))?;
        }
        let in_cycles = self.cycles.last().map_or(0, |cycle| cycle.end);
        write_grouped(f, &self.fibers[in_cycles..])?;
        if self.unlisted > 0 {
            write!(f, "\n  and {} more", self.unlisted)?;
        }
        Ok(())
    }
}

/// Writes a line for each fiber with a name, and for each group of like fibers without one.
fn write_grouped(f: &mut fmt::Formatter<'_>, fibers: &[WaitingFiber]) -> fmt::Result {
    let mut groups: Vec<(&WaitingFiber, String, usize)> = Vec::new();
    for fiber in fibers {
        let wait = fiber.waits_for.to_string();
        let is_like = |(first, its_wait, _): &&mut (&WaitingFiber, String, usize)| {
            fiber.name.is_none()
                && first.name.is_none()
                && first.spawned_at == fiber.spawned_at
                && *its_wait == wait
        };
        match groups.iter_mut().find(is_like) {
            Some((_, _, count)) => *count += 1,
            None => groups.push((fiber, wait, 1)),
        }
    }
    groups.iter().try_for_each(|(fiber, wait, count)| match count {
        1 => write!(f, "\n  {fiber}"),
        _ => write!(f, "\n  {count} fibers, spawned at {}, wait {wait}", fiber.spawned_at),
    })
}

impl fmt::Display for WaitingFiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_fiber(f, self.name.as_deref(), self.id)?;
        write!(f, ", spawned at {}, waits {}", self.spawned_at, self.waits_for)
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.held_by, self.address) {
            (Some(holder), Some(_)) if self.kind == "join" => write!(f, "for the end of {holder}"),
            (Some(holder), Some(at)) => write!(f, "for {} {at:#x}, held by {holder}", self.kind),
            (None, Some(at)) => write!(f, "for {} {at:#x}", self.kind),
            (_, None) => write!(f, "in {}", self.kind),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fiber, &self.name) {
            (Some(id), name) => write_fiber(f, name.as_deref(), id)?,
            (None, Some(name)) => write!(f, "thread {name:?}")?,
            (None, None) => f.write_str("a thread")?,
        }
        self.locked_at.map_or(Ok(()), |at| write!(f, " since {at}"))
    }
}

fn write_fiber(f: &mut fmt::Formatter<'_>, name: Option<&str>, id: usize) -> fmt::Result {
    match name {
        Some(name) => write!(f, "fiber {name:?}"),
        None => write!(f, "fiber {id:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fiber(id: usize, name: Option<&str>, waits_for: Awaited) -> WaitingFiber {
        WaitingFiber { id, name: name.map(str::to_owned), spawned_at: HERE, waits_for }
    }

    fn held(kind: &'static str, fiber: Option<usize>, name: &str) -> Awaited {
        let locked_at = (kind == "Mutex").then_some(HERE);
        let holder = Holder { fiber, name: Some(name.to_owned()), locked_at };
        Awaited { kind, address: Some(0x10), held_by: Some(holder) }
    }

    fn free(kind: &'static str, address: Option<usize>) -> Awaited {
        Awaited { kind, address, held_by: None }
    }

    const HERE: &Location<'_> = Location::caller();

    #[test]
    fn the_text_has_a_line_for_each_fiber() {
        let fibers = vec![
            fiber(0x1, Some("a"), held("Mutex", Some(2), "b")),
            fiber(0x2, Some("b"), held("join", Some(1), "a")),
            fiber(0x3, None, held("Mutex", None, "main")),
            fiber(0x4, None, free("Condvar", Some(0x20))),
            fiber(0x5, None, free("park", None)),
            fiber(0x6, None, free("park", None)),
            fiber(0x7, Some("main"), free("park", None)),
            fiber(0x8, None, free("park", None)),
        ];
        let (cycles, place) = (std::iter::once(0..2).collect(), HERE.to_string());
        let text = Deadlock { fibers, cycles, unlisted: 7, other_threads: 2 }.to_string();
        let expected = [
            "daiko: deadlock: 15 fibers wait; 2 threads that are no workers could still wake some",
            "  in a cycle, which nothing can wake:",
            "    fiber \"a\", spawned at HERE, waits for Mutex 0x10, held by fiber \"b\" since HERE",
            "    fiber \"b\", spawned at HERE, waits for the end of fiber \"a\"",
            "  fiber 0x3, spawned at HERE, waits for Mutex 0x10, held by thread \"main\" since HERE",
            "  fiber 0x4, spawned at HERE, waits for Condvar 0x20",
            "  3 fibers, spawned at HERE, wait in park",
            "  fiber \"main\", spawned at HERE, waits in park",
            "  and 7 more",
        ];
        assert_eq!(text, expected.join("\n").replace("HERE", &place));
    }
}
