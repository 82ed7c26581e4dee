//! Output during a session, on standard error: a table that is kept up to date on a terminal;
//! otherwise a line for each thread with a changed class or place.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, IsTerminal, Write},
};

use daiko_pair::{
    Class,
    class::Classification,
    machine::ThisMachine,
    session::{Session, Standing, WatchedThread},
    thread::ThreadId,
};

const HEAD: &str = "    PID     TID name            class   by        sure  CPU  why";
/// Clears the screen and moves to its top.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(super) struct ThreadTable {
    is_live: bool,
    /// The last output about each thread, without the reason, which changes with each observation.
    told: BTreeMap<ThreadId, String>,
    /// Output that is not about a single thread.
    lines: Vec<String>,
    once: BTreeSet<String>,
}

impl ThreadTable {
    /// Creates a table. `alone` means that no other program writes to the terminal.
    pub(super) fn new(alone: bool) -> Self {
        let is_live = alone && io::stderr().is_terminal();
        Self { is_live, told: BTreeMap::new(), lines: Vec::new(), once: BTreeSet::new() }
    }

    /// Prints a line that is not about a single thread.
    pub(super) fn line(&mut self, line: &str) {
        match self.is_live {
            // The line is on the screen already.
            true if self.lines.iter().any(|told| told == line) => {}
            true => self.lines.push(line.to_owned()),
            false => say(&format!("daiko pair: {line}\n")),
        }
    }

    /// [`line`](Self::line), but only once for each text.
    pub(super) fn line_once(&mut self, line: &str) {
        if self.once.insert(line.to_owned()) {
            self.line(line);
        }
    }

    /// Prints the state of the threads.
    pub(super) fn show(&mut self, session: &Session<ThisMachine>) {
        if self.is_live {
            let rows = session.threads().map(|(id, watched)| row(*id, watched) + "\n");
            let rows: String = rows.collect();
            say(&format!("{CLEAR}{}\n{HEAD}\n{rows}", self.lines.join("\n")));
            return;
        }
        let mut text = String::new();
        for (id, watched) in session.threads() {
            let key = key(watched);
            if self.told.get(id).is_none_or(|told| *told != key) && is_worth_a_line(watched) {
                text += &format!("daiko pair: {}\n", row(*id, watched).trim_start());
                self.told.insert(*id, key);
            }
        }
        let known: BTreeSet<ThreadId> = session.threads().map(|(id, _)| *id).collect();
        self.told.retain(|id, _| known.contains(id));
        say(&text);
    }
}

/// Returns true unless the thread is unknown and unchanged.
fn is_worth_a_line(watched: &WatchedThread) -> bool {
    watched.classification().class != Class::Unknown || watched.standing() != Standing::Free
}

fn key(watched: &WatchedThread) -> String {
    let Classification { class, source, .. } = watched.classification();
    format!("{class:?} {source:?} {:?}", watched.standing())
}

fn row(id: ThreadId, watched: &WatchedThread) -> String {
    let Classification { class, source, confidence, why } = watched.classification();
    let class = match class {
        Class::Unknown => "-",
        Class::Compute => "compute",
        Class::Stall => "stall",
    };
    let (cpu, left) = match watched.standing() {
        Standing::Free => ("-".to_owned(), ""),
        Standing::Placed(cpus) => (cpus.to_string(), ""),
        Standing::Scheduled => ("any".to_owned(), ""),
        Standing::Left(left) => ("-".to_owned(), left),
    };
    let separator = if left.is_empty() { "" } else { "; left alone: " };
    // A name may have any characters.
    let name = watched.name.replace(char::is_control, "?");
    format!(
        "{:>7} {:>7} {name:<15} {class:<7} {source:<9} {:>3.0}% {cpu:>4}  {why}{separator}{left}",
        id.pid,
        id.tid,
        confidence * 100.0
    )
}

/// Writes to standard error, which may be closed.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
