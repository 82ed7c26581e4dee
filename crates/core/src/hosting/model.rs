//! A thread that sleeps and comes back by itself, two workers that host it, a recall, and an
//! announcement.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32 as Plain};
use loom::sync::{Arc, Notify};
use loom::thread;

use super::*;

/// A worker: the mark that it is parked, its messages, its token, and the data that one thread at a
/// time uses.
struct Guest {
    hosting: Hosting,
    parked: AtomicBool,
    messages: Plain,
    token: Notify,
    /// True once the token was given.
    owed: AtomicBool,
    /// Number of messages that were acted on.
    data: UnsafeCell<u32>,
    /// A change that the thread has to act on.
    changed: AtomicBool,
}

// SAFETY: the model checks that one thread at a time uses the cell.
unsafe impl Sync for Guest {}
// SAFETY: as for Sync.
unsafe impl Send for Guest {}

impl Guest {
    /// Returns a guest whose thread is about to sleep.
    fn new() -> Arc<Self> {
        Arc::new(Guest {
            hosting: Hosting::new(),
            parked: AtomicBool::new(true),
            messages: Plain::new(0),
            token: Notify::new(),
            owed: AtomicBool::new(false),
            data: UnsafeCell::new(0),
            changed: AtomicBool::new(false),
        })
    }

    // By exchanges, as in an inbox.
    fn mark(&self) {
        let marked = self.parked.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed);
        assert!(marked.is_ok(), "it was parked");
    }

    fn take_mark(&self) -> bool {
        self.parked.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn give_token(&self) {
        assert!(!self.owed.swap(true, Ordering::AcqRel), "two tokens");
        self.token.notify();
    }

    fn act(&self) {
        let new = self.messages.swap(0, Ordering::AcqRel);
        // SAFETY: the caller has the guest, which the model checks.
        self.data.with_mut(|data| unsafe { *data += new });
    }

    /// Sends a message and, if that takes the mark, runs the guest as `host` until it is parked
    /// again; or gives the token.
    fn send(&self, host: u32) {
        self.messages.fetch_add(1, Ordering::AcqRel);
        if !self.take_mark() {
            return;
        }
        if !self.hosting.take(host) {
            return self.give_token();
        }
        if !self.hosting.enter(host) {
            return; // Its thread has it back, or was recalled.
        }
        self.act();
        if self.hosting.leave(host) == Left::OwesToken {
            return self.give_token();
        }
        // Before it parks.
        if !self.hosting.enter(host) {
            return;
        }
        self.act();
        self.mark();
        if self.messages.load(Ordering::Acquire) != 0 && self.take_mark() {
            // As with an inbox that is not empty: it is not parked.
            self.act();
            return self.give_token();
        }
        let pending = || self.changed.load(Ordering::Relaxed);
        if self.hosting.put_back(host, pending, || self.take_mark()) == Left::OwesToken {
            self.give_token();
        }
    }

    /// Announces a change, as a thread does that makes a worker active, or ends the runtime.
    fn announce(&self) {
        self.changed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let marked = self.parked.load(Ordering::Relaxed) && self.take_mark();
        if marked || self.hosting.recall() {
            self.give_token();
        }
    }

    /// The thread of the worker: sleeps, comes back by itself, and acts on its messages.
    fn sleep_and_come_back(&self) {
        // SAFETY: as the guest is not asleep yet.
        self.data.with_mut(|data| unsafe { *data += 0 });
        self.hosting.sleep();
        let awaits = match self.hosting.come_back() {
            Return::TakenBack => false,
            Return::Alone => !self.take_mark(),
            Return::AwaitsToken => true,
        };
        if awaits {
            // A wait may end without a cause.
            while !self.owed.load(Ordering::Acquire) {
                self.token.wait();
            }
            self.hosting.arrive();
        }
        self.act();
    }
}

#[test]
fn one_thread_at_a_time_has_the_guest_and_the_sleeper_gets_it_back() {
    loom::model(|| {
        let guest = Guest::new();
        let hosts = [0, 1].map(|host| {
            let guest = guest.clone();
            thread::spawn(move || guest.send(host))
        });
        guest.sleep_and_come_back();
        hosts.into_iter().for_each(|host| host.join().unwrap());
        guest.act();
        // SAFETY: all other threads have ended.
        assert_eq!(guest.data.with(|data| unsafe { *data }), 2);
    });
}

/// A guest whose thread sleeps, and a host that sends it a message.
fn asleep_beside_a_host() -> (Arc<Guest>, thread::JoinHandle<()>) {
    let guest = Guest::new();
    guest.hosting.sleep();
    let host = guest.clone();
    (guest, thread::spawn(move || host.send(0)))
}

#[test]
fn a_recalled_guest_gets_one_token() {
    loom::model(|| {
        let (guest, host) = asleep_beside_a_host();
        if guest.hosting.recall() {
            guest.give_token();
        }
        host.join().unwrap();
        // Still with its host, with a token on its way, or asleep.
        let sleeps = guest.parked.load(Ordering::Acquire);
        assert!(sleeps || guest.owed.load(Ordering::Acquire));
    });
}

#[test]
fn a_change_reaches_the_thread_of_a_guest() {
    loom::model(|| {
        let (guest, host) = asleep_beside_a_host();
        guest.announce();
        host.join().unwrap();
        assert!(guest.owed.load(Ordering::Acquire), "no token");
    });
}
