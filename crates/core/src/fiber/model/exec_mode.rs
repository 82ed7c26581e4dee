//! The state that a fiber leaves if its worker stops for ever at any step in user code.

use super::*;
use crate::atomic::{AtomicBool, AtomicU32};
use crate::lock::QueueLock;
use crate::lock::testing::Tester;
use crate::modelled::dies_at_each_step;

/// State that fibers share under a queue lock: two words that are equal while it is free.
struct Shared {
    exec_mode: ExecMode,
    lock: QueueLock,
    words: [AtomicU32; 2],
    /// A lock that is held for longer than a runtime section.
    held: AtomicBool,
    /// The entry for `held` in the fiber's robust list.
    noted: AtomicBool,
}

impl Shared {
    fn new() -> Self {
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        let [held, noted] = [false; 2].map(AtomicBool::new);
        Shared { exec_mode: ExecMode::new(), lock: QueueLock::new(), words, held, noted }
    }

    fn add(&self, by: u32) {
        let Some(_held) = self.lock.try_lock(&Tester(by)) else { return };
        for word in &self.words {
            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Makes a call of the public API.
    fn call(&self) {
        self.call_and(|| ());
    }

    fn call_and(&self, more: impl FnOnce()) {
        let enters = self.exec_mode.enter(false);
        more();
        self.add(1);
        if enters {
            assert!(self.exec_mode.leave());
        }
    }
}

/// Checks that a fiber that stops for ever at each step of `life` has left nothing half done if it
/// was in user code.
fn leaves_nothing_half_done(life: fn(&Shared)) {
    dies_at_each_step(2, move |death| {
        let shared = Arc::new(Shared::new());
        let dies = death.clone();
        let victim = spawn(&shared, move |shared: &Shared| {
            dies.of(|| {
                shared.exec_mode.reset();
                shared.exec_mode.resume();
                life(shared);
            })
        });
        shared.add(2);
        let _ = victim.join().unwrap();
        if shared.exec_mode.is_in_own_code() {
            assert_eq!(shared.lock.holder(), None);
            let [one, other] = [0, 1].map(|word: usize| shared.words[word].load(Ordering::Relaxed));
            assert_eq!(one, other);
        }
    });
}

#[test]
fn a_death_in_user_code_leaves_no_half_done_step() {
    leaves_nothing_half_done(|shared| {
        shared.call();
        shared.exec_mode.suspend();
        shared.exec_mode.resume();
        shared.call();
    });
}

#[test]
fn a_call_is_not_over_where_one_inside_of_it_is() {
    leaves_nothing_half_done(|shared| shared.call_and(|| shared.call()));
}

#[test]
fn a_call_that_has_run_own_code_goes_on() {
    leaves_nothing_half_done(|shared| {
        shared.call_and(|| {
            let lent = shared.exec_mode.lend();
            shared.call();
            shared.exec_mode.take_back(lent, false);
        });
    });
}

#[test]
fn a_fiber_that_suspends_at_the_end_of_a_call_is_not_in_user_code() {
    leaves_nothing_half_done(|shared| {
        shared.exec_mode.end();
        shared.exec_mode.suspend();
        shared.exec_mode.resume();
        // Without a runtime section of its own, as the fiber is in the runtime for good.
        shared.add(1);
    });
}

#[test]
fn a_death_in_user_code_comes_after_the_note_of_a_held_object() {
    dies_at_each_step(2, |death| {
        let shared = Arc::new(Shared::new());
        let dies = death.clone();
        let victim = spawn(&shared, move |shared: &Shared| {
            dies.of(|| {
                shared.exec_mode.reset();
                shared.exec_mode.resume();
                let enters = shared.exec_mode.enter(false);
                shared.held.store(true, Ordering::Relaxed);
                shared.noted.store(true, Ordering::Relaxed);
                let lent = shared.exec_mode.lend();
                // The user code that holds the lock runs here.
                shared.exec_mode.take_back(lent, false);
                shared.noted.store(false, Ordering::Relaxed);
                shared.held.store(false, Ordering::Relaxed);
                if enters {
                    assert!(shared.exec_mode.leave());
                }
            })
        });
        let _ = victim.join().unwrap();
        if shared.exec_mode.is_in_own_code() {
            let [held, noted] =
                [&shared.held, &shared.noted].map(|word| word.load(Ordering::Relaxed));
            assert_eq!(held, noted);
        }
    });
}
