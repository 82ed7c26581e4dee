//! Sessions in the process of the load: they wait for a word in memory that says how many requests
//! they have, and are woken by their library.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use daiko_sys::clock;

use super::load::Transport;
use crate::kit::Failure;

/// Wakes a session.
pub(super) type WakeSession = Box<dyn Fn(usize)>;

/// Requests of sessions, and the sessions that have carried one out.
pub(super) struct Mailboxes {
    requests: Box<[Mailbox]>,
    /// A ring of sessions: their number plus 1; 0: none is there. It has room for all requests that
    /// are under way at a time.
    ended: Box<[AtomicU32]>,
    /// The number of entries that were begun.
    begun: AtomicUsize,
}

/// The number of requests of a session, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Mailbox(AtomicU32);

/// Set in an entry if the log was not written.
const FAILED: u32 = 1 << 31;

impl Mailboxes {
    /// Returns the mailboxes of so many sessions, which have no more requests under way than are
    /// due in `window`, or one each.
    pub(super) fn new(sessions: usize, window: Duration, per_second: f64) -> Self {
        let due = (2.0 * per_second * window.as_secs_f64()) as usize + 1024;
        let room = (due.max(sessions) + 1).next_power_of_two();
        Self {
            requests: (0..sessions).map(|_| Mailbox::default()).collect(),
            ended: (0..room).map(|_| AtomicU32::new(0)).collect(),
            begun: AtomicUsize::new(0),
        }
    }

    /// Takes a request of a session, if there is one. For that session only.
    pub(super) fn take(&self, session: usize) -> bool {
        let requests = &self.requests[session].0;
        // Acquire: pairs with the Release in `ask`. Relaxed: the session alone takes.
        let is_there = requests.load(Ordering::Acquire) > 0;
        if is_there {
            requests.fetch_sub(1, Ordering::Relaxed);
        }
        is_there
    }

    /// Notes that a session has carried out a request. If not `reached`, the log was not written.
    pub(super) fn note(&self, session: usize, reached: bool) {
        let entry = (session as u32 + 1) | if reached { 0 } else { FAILED };
        // Relaxed: the place is this session's alone.
        let at = self.begun.fetch_add(1, Ordering::Relaxed) & (self.ended.len() - 1);
        // Release: pairs with the Acquire in `look`.
        self.ended[at].store(entry, Ordering::Release);
    }
}

/// The sessions, as the load sees them.
pub(super) struct InProcess {
    wake: WakeSession,
    mailboxes: Arc<Mailboxes>,
    /// The number of entries that were read.
    read: usize,
}

impl InProcess {
    pub(super) fn new(wake: WakeSession, mailboxes: Arc<Mailboxes>) -> Self {
        Self { wake, mailboxes, read: 0 }
    }
}

impl Transport for InProcess {
    fn len(&self) -> usize {
        self.mailboxes.requests.len()
    }

    fn ask(&mut self, session: usize) -> Result<(), Failure> {
        // Release: pairs with the Acquire in `take`.
        self.mailboxes.requests[session].0.fetch_add(1, Ordering::Release);
        (self.wake)(session);
        Ok(())
    }

    fn look(&mut self, answered: &mut Vec<usize>) -> Result<(), Failure> {
        let ended = &self.mailboxes.ended;
        loop {
            let entry = &ended[self.read & (ended.len() - 1)];
            // Acquire: pairs with the Release in `note`.
            match entry.load(Ordering::Acquire) {
                0 => return Ok(()),
                number if number & FAILED != 0 => {
                    return Err(Failure::Broken("the log cannot be written".into()));
                }
                number => {
                    // Relaxed: the place is written again only after requests that are asked for
                    // later.
                    entry.store(0, Ordering::Relaxed);
                    self.read += 1;
                    answered.push(number as usize - 1);
                }
            }
        }
    }
}

/// Returns the CPU time of this process without that of the calling thread, which is the load.
pub(super) fn engine_cpu_ns() -> u64 {
    clock::process_cpu_ns().saturating_sub(clock::thread_cpu_ns())
}
