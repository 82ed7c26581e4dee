//! Tokens: a cancel, by any thread or fiber, ends the work that runs under the token, and no other
//! work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::endless::{self, LONG};
use crate::support::{self, Drops, end, everywhere, migratable, workers, yield_until};
use daiko::cancel::{self, CancelToken};
use daiko::sync::TimedOut;
use daiko::time::{self, Elapsed};
use daiko::{Builder, Cancelled, JoinError};

/// A timeout that is over soon.
const SHORT: Duration = Duration::from_micros(100);

/// The kind of thread or fiber that cancels a token.
#[derive(Clone, Copy)]
enum By {
    Thread,
    Pinned,
    Migratable,
}

impl By {
    const ALL: [By; 3] = [By::Thread, By::Pinned, By::Migratable];

    fn cancels(self, token: &CancelToken) {
        let token = token.clone();
        match self {
            By::Thread => drop(thread::spawn(move || token.cancel())),
            By::Pinned => drop(daiko::spawn(move || token.cancel())),
            By::Migratable => drop(migratable().spawn(move || token.cancel()).unwrap()),
        }
    }
}

#[test]
fn every_kind_of_wait_ends_by_its_token() {
    everywhere(|| {
        let drops = Drops::default();
        for kind in 0..endless::KINDS {
            for by in By::ALL {
                let (token, held) = (CancelToken::new(), drops.token());
                by.cancels(&token);
                let ended = token.run(move || {
                    let _held = held;
                    endless::wait(kind);
                });
                assert!(ended.is_err(), "{kind}");
                assert!(token.is_cancelled() && !cancel::is_cancelled());
                drops.assert_all();
                time::sleep(Duration::from_nanos(1));
            }
        }
    });
}

#[test]
fn a_fiber_may_cancel_its_own_token() {
    everywhere(|| {
        let token = CancelToken::new();
        let ended = token.run(|| {
            token.cancel();
            assert!(cancel::is_cancelled());
            daiko::yield_now();
            unreachable!("it was cancelled");
        });
        assert!(ended.is_err());
    });
}

#[test]
fn nothing_runs_in_the_name_of_a_token_that_was_cancelled_before() {
    everywhere(|| {
        let token = CancelToken::new();
        token.cancel();
        token.cancel();
        let error: Result<(), Cancelled> = token.run(|| unreachable!("it was cancelled before"));
        assert_eq!(format!("{error:?}"), "Err(Cancelled)");
        support::assert_names(&error.unwrap_err(), "cancelled");
    });
}

#[test]
fn one_cancel_ends_many_fibers_everywhere() {
    const EACH: usize = 200;
    let (first, second) = (workers(2), workers(1));
    let (token, there) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
    let fibers: Vec<_> = (0..3 * EACH)
        .map(|index| {
            let (token, there) = (token.clone(), there.clone());
            let runtime = if index % 3 == 0 { &second } else { &first };
            let builder = if index % 2 == 0 { Builder::new() } else { migratable() };
            let body = move || {
                let run = token.run(|| {
                    there.fetch_add(1, Ordering::Release);
                    endless::wait(index % endless::KINDS);
                });
                daiko::yield_now();
                run.is_err()
            };
            runtime.spawn_with(builder, body).unwrap()
        })
        .collect();
    let waiters = [(); 2].map(|()| {
        let token = token.clone();
        thread::spawn(move || token.wait())
    });
    support::until("some of them", || there.load(Ordering::Acquire) > EACH);
    token.cancel();
    fibers.into_iter().for_each(|fiber| assert!(fiber.join().unwrap()));
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    end(first);
    end(second);
}

#[test]
fn a_child_is_cancelled_with_its_parent_and_not_the_other_way() {
    everywhere(|| {
        let parent = CancelToken::new();
        let (child, other) = (parent.child(), parent.child());
        let grandchild = child.child();
        drop(child.clone());
        child.cancel();
        assert!(grandchild.is_cancelled() && !parent.is_cancelled() && !other.is_cancelled());
        // The descendants of a dropped token are cancelled all the same.
        let grandchild = other.child();
        drop(other);
        parent.cancel();
        assert!(grandchild.is_cancelled());
        assert!(grandchild.child().is_cancelled());
    });
}

#[test]
fn generations_may_be_many() {
    everywhere(|| {
        let eldest = CancelToken::new();
        let mut family = vec![eldest.clone()];
        for _ in 0..20_000 {
            family.push(family.last().unwrap().child());
        }
        let youngest = family.pop().unwrap();
        drop(family);
        let fiber = daiko::spawn({
            let youngest = youngest.clone();
            move || youngest.run(daiko::park).is_err()
        });
        daiko::yield_now();
        eldest.cancel();
        assert!(youngest.is_cancelled() && fiber.join().unwrap());
    });
}

#[test]
fn of_nested_tokens_the_outermost_that_is_cancelled_ends() {
    everywhere(|| {
        let parent = CancelToken::new();
        let child = parent.child();
        let ended = parent.run(|| {
            let inner = CancelToken::new();
            let ended = inner.run(|| {
                inner.cancel();
                daiko::yield_now();
            });
            assert!(ended.is_err());
            let _ = child.run(|| {
                parent.cancel();
                assert!(child.is_cancelled());
                daiko::yield_now();
            });
            unreachable!("the parent was cancelled");
        });
        assert!(ended.is_err());
        let token = CancelToken::new();
        let ended = token.run(|| time::timeout(SHORT, || time::sleep(LONG)));
        assert_eq!(ended.unwrap(), Err(Elapsed));
        By::Thread.cancels(&token);
        assert!(token.run(|| time::timeout(LONG, || time::sleep(LONG))).is_err());
    });
}

#[test]
fn a_cancel_of_the_fiber_goes_through() {
    everywhere(|| {
        let there = Arc::new(AtomicBool::new(false));
        let is_there = there.clone();
        let fiber = daiko::spawn(move || {
            let _ = CancelToken::new().run(|| {
                is_there.store(true, Ordering::Relaxed);
                endless::wait(0);
            });
            unreachable!("it was cancelled");
        });
        yield_until("the fiber", || there.load(Ordering::Relaxed));
        fiber.cancel();
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn fibers_and_threads_wait_for_a_token() {
    let wait = || {
        let token = CancelToken::new();
        assert_eq!(token.wait_timeout(SHORT), Err(TimedOut));
        assert_eq!(token.wait_timeout(Instant::now()), Err(TimedOut));
        let theirs = token.clone();
        let canceller = thread::spawn(move || theirs.cancel());
        assert_eq!(token.wait_timeout(LONG), Ok(()));
        canceller.join().unwrap();
        token.wait();
        assert_eq!(token.wait_timeout(Duration::ZERO), Ok(()));
    };
    wait();
    everywhere(wait);
}

#[test]
fn of_end_and_cancel_exactly_one_comes() {
    everywhere(|| {
        let (drops, mut ended, mut cancelled) = (Drops::default(), 0, 0);
        for lap in 0..600u64 {
            let (token, held) = (CancelToken::new(), drops.token());
            let theirs = if lap % 2 == 0 { token.clone() } else { token.child() };
            let by = move || {
                time::sleep(Duration::from_nanos(lap % 11 * 300));
                token.cancel();
            };
            let builder = if lap % 3 == 0 { migratable() } else { Builder::new() };
            let canceller = builder.spawn(by).unwrap();
            let result = theirs.run(move || {
                time::sleep(Duration::from_nanos(lap % 7 * 500));
                held
            });
            match result {
                Ok(_held) => ended += 1,
                Err(_) => cancelled += 1,
            }
            drops.assert_all();
            if lap % 5 == 0 {
                // An interrupt that comes late ends no later wait.
                time::sleep(Duration::from_nanos(500));
            }
            canceller.join().unwrap();
            assert!(theirs.is_cancelled());
        }
        assert_eq!(ended + cancelled, 600);
    });
}

/// Cancels from both sides of the family, while other tokens come and go.
#[test]
fn a_family_is_cancelled_once_by_many() {
    let runtime = workers(2);
    for _ in 0..200 {
        let parent = CancelToken::new();
        let children: Vec<_> = (0..4).map(|_| parent.child()).collect();
        let fibers: Vec<_> = children
            .iter()
            .map(|child| {
                let grandchild = child.child();
                runtime.spawn(move || grandchild.run(daiko::park).is_err())
            })
            .collect();
        thread::scope(|threads| {
            for child in children {
                threads.spawn(move || {
                    child.cancel();
                    drop(child);
                });
            }
            threads.spawn(|| (0..10).for_each(|_| drop(parent.child())));
            parent.cancel();
        });
        fibers.into_iter().for_each(|fiber| assert!(fiber.join().unwrap()));
    }
    end(runtime);
}
