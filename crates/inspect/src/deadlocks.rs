//! Cycles of waits, over the fibers and threads of several processes.

use std::collections::HashMap;
use std::rc::Rc;

use daiko_core::inspect::{FiberRow, LockHolder, Party, Place, Reader, Wait, cycles};

use crate::problem::InspectError;
use crate::source::Subject;

/// A fiber or a thread that waits for an object with a known holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The position of its process among the subjects.
    pub subject: usize,
    /// The waiter.
    pub party: Party,
    /// The row of the waiter, if it is a fiber.
    pub fiber: Option<FiberRow>,
    /// The target.
    pub wait: Wait,
    /// The file of a target that processes share, and its offset there.
    pub file: Option<(String, u64)>,
    /// The place where the holder has taken the target, if it is known.
    pub held_at: Option<Rc<Place>>,
}

/// The cycles of waits among fibers and threads of some processes.
#[derive(Debug, Default)]
pub struct Deadlocks {
    /// The cycles: each party waits for the next, and the last for the first.
    pub cycles: Vec<Vec<Waiting>>,
    /// Number of fibers and threads that wait.
    pub waiting: usize,
    /// The positions of subjects that do not note the holders of locks.
    pub untracked: Vec<usize>,
}

/// An object that processes share: its file, and its offset there.
type SharedKey = (String, u64);

/// The waits of all subjects at one time.
struct Waits {
    waiting: Vec<Waiting>,
    /// The position of the holder of each target, if it waits as well.
    next: Vec<Option<usize>>,
}

impl Deadlocks {
    /// Searches. The processes go on meanwhile: a cycle counts if it is there twice, with no step
    /// of any of its parties in between.
    ///
    /// # Errors
    ///
    /// A subject has no runtime.
    pub fn among(subjects: &[Subject]) -> Result<Self, InspectError> {
        let readers: Vec<_> = subjects.iter().map(Subject::readers).collect::<Result<_, _>>()?;
        let (first, second) = (Waits::of(subjects, &readers), Waits::of(subjects, &readers));
        let all = |waits: &Waits| -> Vec<Vec<Waiting>> {
            let parties =
                |cycle: Vec<usize>| cycle.into_iter().map(|at| waits.waiting[at].clone()).collect();
            cycles(&waits.next).into_iter().map(parties).collect()
        };
        let before = all(&first);
        let stays = |cycle: &Vec<Waiting>| before.iter().any(|other| is_same(cycle, other));
        let untracked = readers
            .iter()
            .enumerate()
            .filter(|(_, readers)| !readers.iter().all(Reader::tracks_locks));
        Ok(Deadlocks {
            cycles: all(&second).into_iter().filter(stays).collect(),
            waiting: second.waiting.len(),
            untracked: untracked.map(|(at, _)| at).collect(),
        })
    }
}

/// Returns true if two cycles are equal, wherever each begins.
fn is_same(one: &[Waiting], other: &[Waiting]) -> bool {
    one.len() == other.len()
        && (0..one.len()).any(|shift| {
            let shifted = other.iter().cycle().skip(shift);
            one.iter().zip(shifted).all(|(a, b)| a == b)
        })
}

impl Waits {
    fn of(subjects: &[Subject], readers: &[Vec<Reader<&Subject>>]) -> Self {
        let (mut waiting, mut holders) = (Vec::new(), Vec::new());
        // The holders of shared objects in all processes.
        let mut shared: HashMap<SharedKey, (usize, LockHolder)> = HashMap::new();
        for (subject, readers) in readers.iter().enumerate() {
            let mut own = HashMap::new();
            for reader in readers {
                waiting.extend(waits_of(subject, reader));
                own.extend(reader.holders());
            }
            for (&lock, holder) in &own {
                if let Some(key) = shared_key(&subjects[subject], lock) {
                    shared.insert(key, (subject, holder.clone()));
                }
            }
            holders.push(own);
        }
        let positions: HashMap<_, _> =
            waiting.iter().enumerate().map(|(at, of)| ((of.subject, of.party), at)).collect();
        let mut next = Vec::new();
        for waiting in &mut waiting {
            waiting.file = shared_key(&subjects[waiting.subject], waiting.wait.object);
            let holder = match &*waiting.wait.kind {
                "join" => Some((waiting.subject, Party::Fiber(waiting.wait.object), None)),
                "shared" => waiting
                    .file
                    .as_ref()
                    .and_then(|key| shared.get(key))
                    .map(|(subject, holder)| (*subject, holder.by, holder.at.clone())),
                _ => holders[waiting.subject]
                    .get(&waiting.wait.object)
                    .map(|holder| (waiting.subject, holder.by, holder.at.clone())),
            };
            let party = holder.map(|(subject, party, at)| {
                waiting.held_at = at;
                (subject, party)
            });
            next.push(party.and_then(|party| positions.get(&party).copied()));
        }
        Waits { waiting, next }
    }
}

fn waits_of(subject: usize, reader: &Reader<&Subject>) -> Vec<Waiting> {
    let new =
        |party, fiber, wait| Waiting { subject, party, fiber, wait, file: None, held_at: None };
    let threads = reader.thread_waits();
    let threads = threads.into_iter().map(|(id, wait)| new(Party::Thread(id), None, wait));
    let (_, fibers) = reader.all();
    let fibers = fibers.into_iter().filter(|fiber| fiber.state.is_suspended());
    let fibers = fibers.filter_map(|fiber| {
        let wait = fiber.wait.clone()?;
        Some(new(Party::Fiber(fiber.id), Some(fiber), wait))
    });
    threads.chain(fibers).collect()
}

fn shared_key(subject: &Subject, address: u64) -> Option<SharedKey> {
    let (mapping, offset) = subject.place_in_file(address)?;
    Some((mapping.file.clone(), offset))
}
