//! `daiko schedule pair`: the scheduler for a session of `daiko pair`, which tells classes of
//! threads on standard input.
//!
//! The end of standard input ends it, also if the session was killed. Nothing is left behind: a
//! scheduler that it has started is detached, one that it has found has the classes as before.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::ExitCode,
    sync::{
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use daiko_core::place::Class;
use daiko_pair::{feed::ClassLine, thread::ThreadId};
use daiko_scx::{Attached, Classes, DEFAULT_BOUND, Error, Kernel, Policy, Settings, Switch};

use super::{
    attach::{LOOK, attach, keep},
    declared::{Supply, declare, with_thread},
    members::Members,
};
use crate::{interrupts::stop_flag, problem::Problem};

/// The settings of a scheduler for one session.
const SETTINGS: Settings = Settings { policy: Policy::Shared, bound: DEFAULT_BOUND, pair: true };

/// Serves a session with these processes, by the attached scheduler or a new one. Once it does, the
/// name of the scheduler is printed.
pub(crate) fn pair(only: &[u32], out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let told = match Attached::find()? {
        Some(attached) => by_attached(&attached, out),
        None => by_new(only, out),
    };
    told.map(|()| ExitCode::SUCCESS)
}

fn by_new(only: &[u32], out: &mut dyn Write) -> Result<(), Problem> {
    let stop = stop_flag()?;
    let running = attach(SETTINGS, Switch::Partial)?;
    let _members = Members::give(only)?;
    writeln!(out, "Daiko's scheduler, attached for these processes")?;
    out.flush()?;
    keep(running, Switch::Partial, Duration::MAX, &mut Told::begin(), &stop, out)
}

fn by_attached(attached: &Attached, out: &mut dyn Write) -> Result<(), Problem> {
    let pairs = || Ok::<bool, Error>(attached.settings()?.pair);
    if !Kernel::here().is_for_all() {
        return Err(Problem::usage("Daiko's scheduler is attached for other processes only"));
    }
    if !pairs()? {
        return Err(Problem::usage(
            "Daiko's scheduler is attached without pairs: daiko schedule start --pair adds them",
        ));
    }
    let stop = stop_flag()?;
    writeln!(out, "Daiko's scheduler, which was attached before")?;
    out.flush()?;
    let (mut told, classes) = (Told::begin(), attached.classes());
    while !stop.load(Relaxed) && told.declare(&classes)? {
        if let Some(ending) = attached.ending()? {
            return Err(Problem::System(ending.into_error().to_string()));
        }
        if !pairs()? {
            break;
        }
        told.wait(LOOK);
    }
    Ok(told.withdraw(&classes)?)
}

/// A class told by a session.
#[derive(Clone, Copy)]
struct Entry {
    class: Class,
    is_declared: bool,
    /// The class before the first declaration, if there was one.
    before: Option<Class>,
}

/// The classes that a session has told.
struct Told {
    lines: Receiver<ClassLine>,
    is_open: bool,
    entries: BTreeMap<ThreadId, Entry>,
    /// Threads with a withdrawn class, and the class before.
    withdrawn: Vec<(ThreadId, Class)>,
}

impl Told {
    /// Reads standard input from now on. A malformed line ends it.
    fn begin() -> Self {
        let (send, lines) = channel();
        thread::spawn(move || {
            let lines = io::stdin().lines().map_while(Result::ok);
            for line in lines.filter(|line| !line.is_empty()) {
                let Some(line) = ClassLine::parse(&line) else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, is_open: true, entries: BTreeMap::new(), withdrawn: Vec::new() }
    }

    fn note(&mut self, ClassLine { thread, class }: ClassLine) {
        let before = self.entries.remove(&thread).and_then(|entry| entry.before);
        if class == Class::Unknown {
            self.withdrawn.extend(before.map(|before| (thread, before)));
        } else {
            self.entries.insert(thread, Entry { class, is_declared: false, before });
        }
    }

    /// Withdraws all classes.
    fn withdraw(mut self, from: &Classes<'_>) -> Result<(), Error> {
        let all = std::mem::take(&mut self.entries).into_iter();
        self.withdrawn.extend(all.filter_map(|(id, entry)| Some((id, entry.before?))));
        self.declare(from).map(drop)
    }
}

impl Supply for Told {
    fn declare(&mut self, to: &Classes<'_>) -> Result<bool, Error> {
        while let Ok(line) = self.lines.try_recv() {
            self.note(line);
        }
        for (thread, before) in self.withdrawn.drain(..) {
            declare(to, thread, before)?;
        }
        for (thread, entry) in self.entries.iter_mut().filter(|(_, entry)| !entry.is_declared) {
            let before = with_thread(*thread, |held| {
                let before = to.class_of(held)?;
                to.declare(held, entry.class).map(|()| before)
            })?;
            entry.is_declared = true;
            entry.before = entry.before.or(before);
        }
        Ok(self.is_open)
    }

    fn forget(&mut self) {
        self.withdrawn.clear();
        for entry in self.entries.values_mut() {
            (entry.is_declared, entry.before) = (false, None);
        }
    }

    fn wait(&mut self, time: Duration) {
        match self.lines.recv_timeout(time) {
            Ok(line) => self.note(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.is_open = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_withdrawn_to_the_one_before() {
        let (send, lines) = channel();
        let thread = |tid| ThreadId { pid: 7, tid, start: 0 };
        let mut told =
            Told { lines, is_open: true, entries: BTreeMap::new(), withdrawn: Vec::new() };
        let line = |tid, class| ClassLine { thread: thread(tid), class };
        told.note(line(1, Class::Stall));
        told.note(line(2, Class::Stall));
        told.note(line(2, Class::Unknown));
        assert!(told.withdrawn.is_empty() && told.entries.len() == 1, "2 was never declared");
        told.entries.get_mut(&thread(1)).unwrap().before = Some(Class::Compute);
        told.note(line(1, Class::Compute));
        assert!(told.withdrawn.is_empty() && !told.entries[&thread(1)].is_declared, "a change");
        told.note(line(1, Class::Unknown));
        assert!(told.entries.is_empty());
        assert_eq!(told.withdrawn, [(thread(1), Class::Compute)]);
        send.send(line(3, Class::Stall)).unwrap();
        told.wait(Duration::from_secs(60));
        assert!(told.is_open && told.entries.contains_key(&thread(3)));
        drop(send);
        told.wait(Duration::from_secs(60));
        assert!(!told.is_open);
    }
}
