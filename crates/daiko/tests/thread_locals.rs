//! Thread-local storage of fibers: each has its own, as a thread has, wherever it runs.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::panic;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use daiko::{Builder, Runtime};
use support::child::in_child_well;
use support::{end, until, workers};

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(7) };
    /// The initializer suspends, so that other fibers run it meanwhile.
    static BOXED: Box<[u64; 8]> = {
        daiko::yield_now();
        Box::new([NUMBER.get().into(); 8])
    };
}

/// The two kinds with thread-locals of their own.
fn kinds() -> [Builder; 2] {
    [Builder::new().pinned(), Builder::new().migratable()]
}

/// Runs `body` in 100 fibers of each kind, on one worker and on two.
fn in_fibers(body: impl Fn(u32) + Copy + Send + 'static) {
    for count in 1..=2 {
        let runtime = workers(count);
        for kind in kinds() {
            let spawn = |number| runtime.spawn_with(kind.clone(), move || body(number)).unwrap();
            let fibers: Vec<_> = (0..100).map(spawn).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        }
        end(runtime);
    }
}

#[test]
fn a_fiber_keeps_its_values_and_their_addresses() {
    in_fibers(|number| {
        assert_eq!(NUMBER.get(), 7);
        NUMBER.set(number);
        NUMBER.with(|here| {
            for _ in 0..10 {
                daiko::yield_now();
                assert!(NUMBER.with(|again| std::ptr::eq(here, again)) && here.get() == number);
            }
        });
    });
}

/// On shared thread-locals `std` drops the value of the first fiber while it borrows it.
#[test]
fn an_initializer_that_suspends_makes_one_value_for_each_fiber() {
    in_fibers(|number| {
        NUMBER.set(number);
        BOXED.with(|boxed| {
            let inner: &[u64; 8] = boxed;
            for _ in 0..3 {
                daiko::yield_now();
                assert_eq!(*inner, [u64::from(number); 8]);
            }
        });
    });
}

#[test]
fn a_fiber_is_a_thread_of_its_own_to_std() {
    let ids = Arc::new(Mutex::new(HashSet::new()));
    let runtime = workers(2);
    for kind in kinds() {
        let fibers: Vec<_> = (0..50)
            .map(|_| {
                let ids = ids.clone();
                let body = move || {
                    let me = thread::current().id();
                    daiko::yield_now();
                    assert_eq!(me, thread::current().id());
                    assert!(ids.lock().unwrap().insert(me), "an id of another fiber");
                };
                runtime.spawn_with(kind.clone(), body).unwrap()
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    }
    end(runtime);
}

/// Notes its number when it is dropped.
struct Noted(u32, Arc<Mutex<Vec<u32>>>);

impl Drop for Noted {
    fn drop(&mut self) {
        // A destructor of a fiber may suspend.
        if daiko::try_current().is_some() {
            daiko::yield_now();
        }
        self.1.lock().unwrap().push(self.0);
    }
}

thread_local! {
    static FIRST: RefCell<Option<Noted>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

#[test]
fn destructors_run_before_the_join_in_the_order_of_a_thread() {
    fn use_both(notes: &Arc<Mutex<Vec<u32>>>) {
        FIRST.set(Some(Noted(1, notes.clone())));
        SECOND.set(Some(Noted(2, notes.clone())));
    }
    let notes = Arc::new(Mutex::new(Vec::new()));
    let theirs = notes.clone();
    thread::spawn(move || use_both(&theirs)).join().unwrap();
    let expected = std::mem::take(&mut *notes.lock().unwrap());
    assert_eq!(expected.len(), 2);
    for count in 1..=2 {
        let runtime = workers(count);
        for kind in kinds() {
            for _ in 0..20 {
                let theirs = notes.clone();
                runtime
                    .spawn_with(kind.clone(), move || use_both(&theirs))
                    .unwrap()
                    .join()
                    .unwrap();
                assert_eq!(std::mem::take(&mut *notes.lock().unwrap()), expected);
            }
        }
        end(runtime);
    }
}

#[test]
fn a_panic_is_the_fibers_own() {
    in_fibers(|number| {
        if number.is_multiple_of(2) {
            struct Suspends;
            impl Drop for Suspends {
                fn drop(&mut self) {
                    for _ in 0..3 {
                        daiko::yield_now();
                        assert!(thread::panicking() && daiko::panicking());
                    }
                }
            }
            let unwound = panic::catch_unwind(|| {
                let _suspends = Suspends;
                panic::resume_unwind(Box::new(number))
            });
            assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&number));
        } else {
            for _ in 0..5 {
                assert!(!thread::panicking());
                daiko::yield_now();
            }
        }
    });
}

/// A lock of `std` that is held over a suspension belongs to the fiber, wherever it goes on.
#[test]
fn a_neighbour_that_unwinds_poisons_no_lock_of_std() {
    let runtime = workers(1);
    let lock = Arc::new(Mutex::new(0));
    let theirs = lock.clone();
    let holder = runtime.spawn(move || {
        let held = theirs.lock().unwrap();
        (0..10).for_each(|_| daiko::yield_now());
        drop(held);
    });
    let unwinds = runtime.spawn(|| {
        let _late = support::OnDrop(|| (0..20).for_each(|_| daiko::yield_now()));
        panic::resume_unwind(Box::new("on purpose"));
    });
    holder.join().unwrap();
    assert!(!lock.is_poisoned());
    let unwinds: Result<(), _> = unwinds.join();
    assert!(unwinds.is_err());
    end(runtime);
}

/// Sets the value of the caller, which has not been set before, calls `between`, and checks that
/// value and address are still the caller's.
fn keeps_over(number: u32, between: impl FnOnce()) {
    assert_eq!(NUMBER.replace(number), 7);
    let address = NUMBER.with(|here| std::ptr::from_ref(here).addr());
    between();
    assert_eq!(NUMBER.get(), number);
    assert_eq!(NUMBER.with(|again| std::ptr::from_ref(again).addr()), address);
}

#[test]
fn fibers_of_two_runtimes_have_values_of_their_own() {
    for (count, kind) in [(1, 0), (2, 0), (1, 1), (2, 1)] {
        let kind = kinds()[kind].clone();
        let (runtime, other) = (workers(count), Arc::new(workers(1)));
        let body = |number| {
            let (there, kind) = (other.clone(), kind.clone());
            move || {
                keeps_over(number, || {
                    let visitor = move || keeps_over(1000 + number, daiko::yield_now);
                    let visitors: Vec<_> =
                        (0..3).map(|_| there.spawn_with(kind.clone(), visitor).unwrap()).collect();
                    visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
                    there.run(move || keeps_over(2000 + number, daiko::yield_now));
                });
            }
        };
        let spawn = |number| runtime.spawn_with(kind.clone(), body(number)).unwrap();
        let fibers: Vec<_> = (0..30).map(spawn).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        end(runtime);
        end(Arc::into_inner(other).unwrap());
    }
}

/// Builds a runtime in each fiber of the one before, and ends it there.
fn nest(level: u32, kind: Builder, notes: &Arc<Mutex<Vec<u32>>>) {
    keeps_over(level, || {
        FIRST.set(Some(Noted(level, notes.clone())));
        if level == 3 {
            return;
        }
        let (inner, theirs) = (workers(1), notes.clone());
        inner
            .spawn_with(kind.clone(), move || nest(level + 1, kind, &theirs))
            .unwrap()
            .join()
            .unwrap();
        // The values of the nested fibers have been dropped, and those of the caller have not.
        assert_eq!(*notes.lock().unwrap(), (level + 1..=3).rev().collect::<Vec<_>>());
        inner.run(move || keeps_over(10 + level, daiko::yield_now));
        end(inner);
    });
}

#[test]
fn fibers_of_nested_runtimes_have_values_of_their_own() {
    for kind in kinds() {
        keeps_over_in_a_thread(move || {
            let notes = Arc::default();
            let (runtime, theirs, inner) = (workers(1), Arc::clone(&notes), kind.clone());
            runtime.spawn_with(kind, move || nest(1, inner, &theirs)).unwrap().join().unwrap();
            end(runtime);
            assert_eq!(*notes.lock().unwrap(), [3, 2, 1]);
        });
    }
}

/// Calls [`keeps_over`] in a thread that is no worker.
fn keeps_over_in_a_thread(between: impl FnOnce() + Send + 'static) {
    thread::spawn(|| keeps_over(5, between)).join().unwrap();
}

/// A thread inherits the register by which a worker is found.
#[test]
fn a_thread_that_a_fiber_starts_is_no_worker() {
    for kind in kinds() {
        let runtime = workers(1);
        let go_on = Arc::new(AtomicU32::new(0));
        let wait = go_on.clone();
        let thread = runtime.spawn_with(kind, move || {
            thread::spawn(move || {
                assert!(daiko::try_current().is_none());
                until("the end of the runtime", || wait.load(Ordering::Acquire) == 1);
                assert!(daiko::try_current().is_none());
                // The seat of the worker is another worker's by now.
                let other = Runtime::builder().workers(1).build().unwrap();
                assert!(daiko::try_current().is_none());
                assert_eq!(other.run(|| 5), 5);
                end(other);
            })
        });
        let thread = thread.unwrap().join().unwrap();
        end(runtime);
        go_on.store(1, Ordering::Release);
        thread.join().unwrap();
    }
}

/// Forks by `fork`, runs `body` in the child, and returns how the child ended: 0 if `body` returned
/// true.
fn in_fork(fork: impl FnOnce() -> libc::pid_t, body: impl FnOnce() -> bool) -> ExitStatus {
    match fork() {
        0 => {
            let code = if body() { 0 } else { 1 };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) }
        }
        child => {
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: writes to the live local.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            ExitStatus::from_raw(status)
        }
    }
}

/// A child has the same registers as its parent, also without the handlers of `fork`.
#[test]
fn a_child_that_a_fiber_forks_is_no_worker() {
    // SAFETY: the child calls nothing that takes a lock.
    let by_fork = || unsafe { libc::fork() };
    // SAFETY: as above; a child without flags has a copy of all memory.
    let by_clone = || unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32;
    for kind in kinds() {
        let runtime = workers(1);
        let fiber = runtime.spawn_with(kind, move || {
            NUMBER.set(8);
            let is_none = || daiko::try_current().is_none() && NUMBER.get() == 8;
            assert!(in_fork(by_fork, is_none).success());
            assert!(in_fork(by_clone, is_none).success());
            assert!(daiko::try_current().is_some());
        });
        fiber.unwrap().join().unwrap();
        end(runtime);
    }
}

/// `Command` uses `posix_spawn`.
#[test]
fn a_program_that_a_fiber_starts_runs() {
    for kind in kinds() {
        let runtime = workers(1);
        let fiber = runtime.spawn_with(kind, || {
            let output = std::process::Command::new("/bin/echo").arg("here").output().unwrap();
            assert_eq!(output.stdout, b"here\n");
            assert!(daiko::try_current().is_some());
        });
        fiber.unwrap().join().unwrap();
        end(runtime);
    }
}

/// The library marks the kernel thread, and waits until a signal handler there has removed the
/// mark.
#[test]
fn a_fiber_may_change_the_group() {
    in_child_well("a_fiber_may_change_the_group", || {
        // SAFETY: the group stays as it is.
        let set_group = || assert_eq!(unsafe { libc::setgid(libc::getgid()) }, 0);
        for kind in kinds() {
            let runtime = workers(2);
            let fiber = runtime.spawn_with(kind.clone(), set_group).unwrap();
            fiber.join().unwrap();
            // A thread does so while a fiber runs.
            let (runs, ends) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let flags = (runs.clone(), ends.clone());
            let fiber = runtime.spawn_with(kind, move || {
                flags.0.store(1, Ordering::Release);
                while flags.1.load(Ordering::Acquire) == 0 {
                    std::hint::spin_loop();
                }
            });
            until("the fiber", || runs.load(Ordering::Acquire) == 1);
            set_group();
            ends.store(1, Ordering::Release);
            fiber.unwrap().join().unwrap();
            end(runtime);
        }
    });
}

/// The number of pages of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Spawns `count` fibers, one after the other, which use thread-locals and the allocator.
fn take_turns(count: u32) {
    for _ in 0..count {
        let fiber = daiko::spawn(|| {
            assert_eq!(NUMBER.replace(1), 7);
            drop(std::hint::black_box(vec![0u8; 100]));
        });
        fiber.join().unwrap();
    }
}

#[test]
fn many_fibers_in_turn_use_the_same_blocks() {
    in_child_well("many_fibers_in_turn_use_the_same_blocks", || {
        let runtime = workers(1);
        runtime.run(|| {
            take_turns(1000);
            let before = resident();
            take_turns(if cfg!(debug_assertions) { 20_000 } else { 1_000_000 });
            let after = resident();
            assert!(after < before + 64, "{before} pages have become {after}");
        });
        end(runtime);
    });
}
