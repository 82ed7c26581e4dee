//! A kernel thread and the worker that runs its context; pokers and the thread that they poke.

use loom::sync::{Arc, Condvar, Mutex};

use super::*;
use crate::atomic::AtomicBool;
use crate::modelled::{Sleep, spawn};

/// The context, as its number of loans.
type Context = u32;

struct Shared {
    loan: Loan<Context, ()>,
    /// The stack of the context: one thread at a time is there.
    stack: UnsafeCell<Context>,
    /// The queue that the fiber is published to.
    published: Sleep,
    /// The futex: under this, a look at the word and the beginning of a sleep are one step.
    futex: Mutex<()>,
    wake: Condvar,
}

// SAFETY: the models check that the protocol gives the stack to one thread at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Shared {
            loan: Loan::new(0),
            stack: UnsafeCell::new(0),
            published: Sleep::new(),
            futex: Mutex::new(()),
            wake: Condvar::new(),
        })
    }

    /// A step of the context, on its stack.
    fn step(&self) -> Context {
        // SAFETY: loom checks that no other thread is there.
        self.stack.with_mut(|stack| unsafe {
            *stack += 1;
            *stack
        })
    }

    /// The kernel thread's part.
    fn lend(&self) {
        self.step();
        // SAFETY: the context, at home.
        unsafe { self.loan.depart(()) };
        // The switch saves registers on the stack that it leaves.
        self.step();
        // SAFETY: behind `depart`, off the stack.
        let context = unsafe {
            self.loan.keep(|()| self.published.wake(), |word, lent| self.sleep(word, lent))
        };
        assert_eq!(context + 1, self.step(), "another context");
    }

    fn sleep(&self, word: &AtomicU32, expected: u32) {
        let asleep = self.futex.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.wake.wait(asleep).unwrap());
        }
    }

    /// The worker's part.
    fn run(&self) {
        self.published.wait();
        self.step();
        let context = self.step();
        let wake = |_| {
            let _asleep = self.futex.lock().unwrap();
            self.wake.notify_one();
        };
        // SAFETY: this thread has run the context. The loan outlives the model.
        unsafe { Loan::receive(NonNull::from(&self.loan), context, wake) };
    }
}

#[test]
fn the_context_is_on_one_thread_at_a_time() {
    loom::model(|| {
        let shared = Shared::new();
        let worker = spawn(&shared, Shared::run);
        shared.lend();
        worker.join().unwrap();
    });
}

/// The wake of the first loan may come in the midst of the second.
#[test]
fn a_late_wake_does_not_end_the_next_loan() {
    loom::model(|| {
        let shared = Shared::new();
        let worker = spawn(&shared, |shared| (0..2).for_each(|_| shared.run()));
        (0..2).for_each(|_| shared.lend());
        worker.join().unwrap();
    });
}

/// The kernel thread that is poked.
const THREAD: u32 = 7;

/// Two workers, a host and its guest, on one kernel thread, where handlers run.
struct Poked {
    words: [PokeWord; 2],
    /// True if the context has to come home.
    is_due: AtomicBool,
    /// The kernel, which orders the handler of a signal behind the sender.
    kernel: Mutex<Kernel>,
}

struct Kernel {
    /// Number of signals on their way.
    signals: u32,
    /// True if a poke of that worker was sent and has not ended.
    is_sent: [bool; 2],
}

impl Poked {
    fn new() -> Arc<Self> {
        Arc::new(Poked {
            words: [PokeWord::new(), PokeWord::new()],
            is_due: AtomicBool::new(false),
            kernel: Mutex::new(Kernel { signals: 0, is_sent: [false; 2] }),
        })
    }

    /// Calls the context home, which runs on `worker`, and pokes it once.
    fn call_home(&self, worker: usize) {
        self.is_due.store(true, Ordering::Relaxed);
        self.poke(worker);
    }

    fn poke(&self, worker: usize) {
        self.words[worker].poke(THREAD, || {
            let mut kernel = self.kernel.lock().unwrap();
            kernel.signals += 1;
            assert!(!std::mem::replace(&mut kernel.is_sent[worker], true), "pokes pile up");
            true
        });
    }

    /// Handles a signal, if one has come. Returns false if there was none.
    fn handle(&self) -> bool {
        {
            let mut kernel = self.kernel.lock().unwrap();
            let Some(left) = kernel.signals.checked_sub(1) else { return false };
            *kernel = Kernel { signals: left, is_sent: [false; 2] };
        }
        let is_due = self.is_due.load(Ordering::Relaxed);
        PokeWord::end(&self.words, THREAD);
        if is_due {
            // It goes home, where it attends to all signals that were sent before.
            self.is_due.store(false, Ordering::Relaxed);
        }
        true
    }

    /// The poker that repeats, and the handlers on the last signals: no thread else runs.
    fn comes_at_last(&self, worker: usize) {
        while self.handle() {}
        if self.is_due.load(Ordering::Relaxed) {
            self.poke(worker);
            self.handle();
        }
        assert!(!self.is_due.load(Ordering::Relaxed), "never poked again");
    }
}

#[test]
fn a_context_that_has_to_come_is_poked_until_it_comes() {
    loom::model(|| {
        let poked = Poked::new();
        let thread = spawn(&poked, |poked| {
            let _ = (poked.handle(), poked.handle());
        });
        poked.call_home(0);
        poked.poke(1);
        poked.call_home(0);
        thread.join().unwrap();
        for worker in 0..2 {
            poked.is_due.store(true, Ordering::Relaxed);
            poked.comes_at_last(worker);
        }
    });
}

#[test]
fn a_poke_that_was_not_sent_keeps_none_back() {
    loom::model(|| {
        let poked = Poked::new();
        let thread = spawn(&poked, Poked::handle);
        // As if the queue of signals were full.
        poked.words[0].poke(THREAD, || false);
        poked.call_home(0);
        thread.join().unwrap();
        poked.comes_at_last(0);
    });
}
