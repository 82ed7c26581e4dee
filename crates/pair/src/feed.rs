//! The classes of threads, told to a scheduler that pairs by them.
//!
//! They go one way, as lines through a pipe. Its end withdraws all of them, so nothing is left
//! behind by a session that is killed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use crate::Class;
use crate::thread::ThreadId;

/// The class of a thread, from now on; `Unknown` withdraws it.
///
/// # Examples
///
/// ```
/// use daiko_pair::{Class, feed::ClassLine, thread::ThreadId};
///
/// let line = ClassLine { thread: ThreadId { pid: 7, tid: 8, start: 90 }, class: Class::Stall };
/// assert_eq!(line.to_string(), "7 8 90 stall");
/// assert_eq!(ClassLine::parse("7 8 90 stall"), Some(line));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassLine {
    /// The thread.
    pub thread: ThreadId,
    /// Its class.
    pub class: Class,
}

const CLASSES: [(Class, &str); 3] =
    [(Class::Unknown, "-"), (Class::Compute, "compute"), (Class::Stall, "stall")];

impl ClassLine {
    /// Parses a line without its end; `None` if it is malformed.
    pub fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [pid, tid, start, class] = fields[..] else { return None };
        let thread =
            ThreadId { pid: pid.parse().ok()?, tid: tid.parse().ok()?, start: start.parse().ok()? };
        let (class, _) = CLASSES.into_iter().find(|(_, name)| *name == class)?;
        Some(Self { thread, class })
    }
}

impl fmt::Display for ClassLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread: ThreadId { pid, tid, start }, class } = self;
        let name = CLASSES.iter().find(|(known, _)| known == class).map_or("-", |(_, name)| name);
        write!(f, "{pid} {tid} {start} {name}")
    }
}

/// The writing end of the pipe.
pub struct ClassFeed {
    to: Box<dyn Write>,
    told: BTreeMap<ThreadId, Class>,
}

impl ClassFeed {
    /// Creates a feed that has told nothing.
    pub fn new(to: impl Write + 'static) -> Self {
        Self { to: Box::new(to), told: BTreeMap::new() }
    }

    /// Makes these the only classes. Returns true if one has changed.
    ///
    /// An empty line goes with each call, so that the end of the reader is found out.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the reader has ended.
    pub fn tell(&mut self, classes: BTreeMap<ThreadId, Class>) -> io::Result<bool> {
        let gone = self.told.keys().filter(|thread| !classes.contains_key(thread));
        let gone = gone.map(|thread| (thread, &Class::Unknown));
        let new = classes.iter().filter(|(thread, class)| self.told.get(thread) != Some(class));
        let lines: Vec<String> = gone
            .chain(new)
            .map(|(thread, class)| ClassLine { thread: *thread, class: *class }.to_string() + "\n")
            .collect();
        self.to.write_all((lines.concat() + "\n").as_bytes())?;
        self.to.flush()?;
        self.told = classes;
        Ok(!lines.is_empty())
    }
}

impl fmt::Debug for ClassFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassFeed").field("told", &self.told).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{Pipe, thread};

    #[test]
    fn only_changes_are_told() {
        let pipe = Pipe::default();
        let mut feed = ClassFeed::new(pipe.clone());
        let mut tell = |classes: &[(u32, Class)]| {
            let classes = classes.iter().map(|(tid, class)| (thread(7, *tid), *class));
            (feed.tell(classes.collect()).unwrap(), pipe.take())
        };
        assert_eq!(
            tell(&[(1, Class::Stall), (2, Class::Compute)]),
            (true, "7 1 10 stall\n7 2 20 compute\n\n".into())
        );
        assert_eq!(tell(&[(1, Class::Stall), (2, Class::Compute)]), (false, "\n".into()));
        assert_eq!(tell(&[(2, Class::Stall)]), (true, "7 1 10 -\n7 2 20 stall\n\n".into()));
        assert_eq!(tell(&[]), (true, "7 2 20 -\n\n".into()));
    }

    #[test]
    fn a_malformed_line_is_refused() {
        for line in ["", "7 8 90", "7 8 90 ", "7 8 90 fast", "7 8 90 stall ", "x 8 90 stall"] {
            assert_eq!(ClassLine::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_end_of_the_reader_is_found_out_without_a_change() {
        let (reader, writer) = io::pipe().unwrap();
        let mut feed = ClassFeed::new(writer);
        assert!(!feed.tell(BTreeMap::new()).unwrap());
        drop(reader);
        assert_eq!(feed.tell(BTreeMap::new()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
