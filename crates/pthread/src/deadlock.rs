//! The report of a deadlock: all threads of the program wait for one another for good.
//!
//! The monitor looks whether all threads of the process sleep until another one wakes them
//! (`daiko_rt::deadlock`). A report is made only if also
//! 1. each thread waits for an object of the program, or in a private futex, without a deadline;
//! 2. the program has started no thread by itself, which might not be listed;
//! 3. the program handles no signal, or each thread waits for a mutex, a lock or an end that only a
//!    thread of a cycle can give: no handler may do that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Display, Write};

use daiko_rt::deadlock::{OwnSearch, cycles};
use daiko_sys::{signal, thread};

use crate::atomic::{AtomicBool, Ordering};
use crate::home::{self, list};
use crate::object::{mutex, rwlock};
use crate::waits::{self, Target, TargetKind};
use crate::{explain, futex, mask, runtime};

/// The variable that asks for the report.
const ASKED: &str = "DAIKO_RUN_REPORT_DEADLOCK";
/// Maximum number of lines for threads that are in no cycle.
const MOST_LINES: usize = 64;

/// Lets the monitor look for deadlocks, if the environment asks for it: before there are threads.
pub(crate) fn begin() {
    if std::env::var_os(ASKED).is_some_and(|asked| asked == "1") {
        waits::note_all();
        runtime::search_by(OwnSearch { looks: || explain::LOOKS.add(), search });
    }
}

/// Returns the report, once, if the threads wait for good.
fn search(others: &[u32]) -> Option<String> {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if IS_REPORTED.load(Ordering::Relaxed) || futex::has_own_threads() {
        return None;
    }
    let waiters = waiters(others)?;
    let next = next(&waiters);
    let may_be_woken = signal::any_handler_besides(&[mask::POKE]);
    if may_be_woken && !lead_into_cycles(&next) {
        return None;
    }
    IS_REPORTED.store(true, Ordering::Relaxed);
    let mut report = Report { waiters, cycles: cycles(&next), known: others.to_vec() };
    report.known.sort_unstable();
    Some(report.to_string())
}

/// A thread of the program that waits.
#[derive(Clone, Copy, Debug)]
struct WaitingThread {
    id: u32,
    target: Target,
    /// The thread that holds the object, or is to end.
    holder: Option<u32>,
}

/// Returns the threads of the program, all of which are known to sleep. `None`: the target of one
/// of them is not known.
fn waiters(others: &[u32]) -> Option<Vec<WaitingThread>> {
    let homes = list::lock().running();
    let not_natives = list::lock().ids();
    let is_native = |id: &u32| !not_natives.contains(id);
    let natives = others.iter().copied().filter(is_native).map(|id| {
        let target = waits::of_native(id).filter(|target| *target != Target::NOTHING);
        (id, target.or_else(|| kernels_target(id)))
    });
    let lent = homes.iter().map(|&(id, target)| {
        let target = [Some(target), waits::of_native(id)].into_iter().flatten();
        (id, target.into_iter().find(|target| *target != Target::NOTHING))
    });
    let mut waiters: Vec<_> =
        lent.chain(natives).map(|(id, target)| Some(waiter(id, target?))).collect::<Option<_>>()?;
    waiters.sort_unstable_by_key(|waiter| waiter.id);
    Some(waiters)
}

fn kernels_target(id: u32) -> Option<Target> {
    Some(Target { kind: TargetKind::KernelFutex, address: thread::awaited_futex(id)? })
}

/// Completes the target of a thread that sleeps, so that its object is alive.
fn waiter(id: u32, mut target: Target) -> WaitingThread {
    // SAFETY: the object of a thread that sleeps for it.
    let holder = unsafe {
        match target.kind {
            TargetKind::Mutex => mutex::holder_of(target.address),
            TargetKind::RwLock => rwlock::writer_of(target.address),
            TargetKind::Join => home::id_of(target.address as libc::pthread_t),
            TargetKind::Futex => {
                target.address = futex::address_at(target.address);
                0
            }
            _ => 0,
        }
    };
    WaitingThread { id, target, holder: (holder != 0).then_some(holder) }
}

/// Returns for each waiter the place of the one that it waits for.
fn next(waiters: &[WaitingThread]) -> Vec<Option<usize>> {
    let places: HashMap<u32, usize> =
        waiters.iter().enumerate().map(|(place, waiter)| (waiter.id, place)).collect();
    waiters.iter().map(|waiter| places.get(&waiter.holder?).copied()).collect()
}

/// Returns true if each path leads into a cycle.
fn lead_into_cycles(next: &[Option<usize>]) -> bool {
    let mut leads = next.to_vec();
    // Each round doubles the length of the paths.
    for _ in 0..=next.len().ilog2() {
        leads = leads.iter().map(|lead| leads[(*lead)?]).collect();
    }
    leads.iter().all(Option::is_some)
}

/// The text for the user.
struct Report {
    waiters: Vec<WaitingThread>,
    /// Places of waiters: each waits for the next, and the last for the first.
    cycles: Vec<Vec<usize>>,
    /// The threads that there are, ascending.
    known: Vec<u32>,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.waiters.len();
        write!(f, "daiko run: deadlock: {count} threads wait, and nothing can wake any of them")?;
        for cycle in &self.cycles {
            f.write_str("\n  in a cycle:")?;
            for &place in cycle {
                write!(f, "\n    {}", self.line(&self.waiters[place], 0))?;
            }
        }
        let groups = self.groups();
        for &(place, alike) in groups.iter().take(MOST_LINES) {
            write!(f, "\n  {}", self.line(&self.waiters[place], alike))?;
        }
        match groups.iter().skip(MOST_LINES).map(|(_, alike)| 1 + alike).sum::<usize>() {
            0 => Ok(()),
            left => write!(f, "\n  and {left} more"),
        }
    }
}

impl Report {
    /// Groups the threads of one name that are in no cycle and wait for the same: the place of the
    /// first, and the number of the rest.
    fn groups(&self) -> Vec<(usize, usize)> {
        let (mut groups, mut known) = (Vec::new(), HashMap::new());
        let in_cycles = self.cycles.concat();
        for (place, waiter) in self.waiters.iter().enumerate() {
            if in_cycles.contains(&place) {
                continue;
            }
            match known.entry((thread::name_of(waiter.id), waiter.target)) {
                Entry::Vacant(entry) => {
                    entry.insert(groups.len());
                    groups.push((place, 0));
                }
                Entry::Occupied(entry) => groups[*entry.get()].1 += 1,
            }
        }
        groups
    }

    fn line(&self, waiter: &WaitingThread, alike: usize) -> String {
        let mut line = named(waiter.id);
        match alike {
            0 => line.push_str(" waits"),
            alike => _ = write!(line, " and {alike} more wait"),
        }
        let Target { kind, address } = waiter.target;
        let _ = match kind {
            TargetKind::Join => write!(line, " for the end of "),
            _ => write!(line, " for the {} at {address:#x}", name(kind)),
        };
        match (kind, waiter.holder) {
            (TargetKind::Join, Some(holder)) => line.push_str(&named(holder)),
            (TargetKind::Join, None) => line.push_str("a thread"),
            (_, Some(holder)) if holder == waiter.id => line.push_str(", which it holds itself"),
            (_, Some(holder)) if self.known.binary_search(&holder).is_err() => {
                let _ = write!(line, ", held by thread {holder}, which has ended");
            }
            (_, Some(holder)) => _ = write!(line, ", held by {}", named(holder)),
            (_, None) => {}
        }
        line
    }
}

fn named(id: u32) -> String {
    match thread::name_of(id) {
        Some(name) => format!("thread {id} {name:?}"),
        None => format!("thread {id}"),
    }
}

fn name(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Nothing | TargetKind::Join => "thread",
        TargetKind::Mutex => "mutex",
        TargetKind::Condition => "condition variable",
        TargetKind::Semaphore => "semaphore",
        TargetKind::RwLock => "read-write lock",
        TargetKind::Barrier => "barrier",
        TargetKind::Once => "pthread_once_t",
        TargetKind::Futex => "futex",
        TargetKind::KernelFutex => "futex of the kernel",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(id: u32, kind: TargetKind, address: usize, holder: u32) -> WaitingThread {
        let holder = (holder != 0).then_some(holder);
        WaitingThread { id, target: Target { kind, address }, holder }
    }

    /// Ids beyond those of the kernel: such threads have no name.
    const ID: u32 = 1 << 30;

    #[test]
    fn the_report_names_cycles_first_and_groups_the_rest() {
        let mut waiters = vec![
            waits(ID, TargetKind::Join, 8, ID + 1),
            waits(ID + 1, TargetKind::Mutex, 0x10, ID + 2),
            waits(ID + 2, TargetKind::RwLock, 0x20, ID + 1),
            waits(ID + 3, TargetKind::Mutex, 0x30, ID + 3),
            waits(ID + 4, TargetKind::Mutex, 0x40, ID + 99),
        ];
        waiters.extend((5..9).map(|id| waits(ID + id, TargetKind::Condition, 0x50, 0)));
        let next = next(&waiters);
        let (cycles, known) = (cycles(&next), (ID..ID + 9).collect());
        let report = Report { waiters, cycles, known }.to_string();
        let thread = |number: u32| format!("thread {}", ID + number);
        let expected = [
            "daiko run: deadlock: 9 threads wait, and nothing can wake any of them",
            "  in a cycle:",
            &format!("    {} waits for the mutex at 0x10, held by {}", thread(1), thread(2)),
            &format!(
                "    {} waits for the read-write lock at 0x20, held by {}",
                thread(2),
                thread(1)
            ),
            "  in a cycle:",
            &format!("    {} waits for the mutex at 0x30, which it holds itself", thread(3)),
            &format!("  {} waits for the end of {}", thread(0), thread(1)),
            &format!(
                "  {} waits for the mutex at 0x40, held by {}, which has ended",
                thread(4),
                thread(99)
            ),
            &format!("  {} and 3 more wait for the condition variable at 0x50", thread(5)),
        ];
        assert_eq!(report, expected.join("\n"));
    }

    #[test]
    fn only_paths_into_cycles_need_no_look_at_handlers() {
        assert!(lead_into_cycles(&[Some(1), Some(2), Some(1), Some(0)]));
        assert!(!lead_into_cycles(&[Some(1), Some(2), None]));
        assert!(!lead_into_cycles(&[Some(0), None]));
    }
}
