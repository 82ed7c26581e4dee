//! `join`: two closures that borrow, a frame that outlives both in every case, and nests of
//! children that begin depth first.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use crate::support::{
    Drops, OnDrop, end, everywhere, migratable, panic_of, run_on, workers, yield_until,
};
use daiko::{Builder, Cancelled, JoinError, Runtime, agent, sync, time};

/// Runs `body` as a fiber in runtimes of one worker to four, more than some machines have CPUs.
fn on_each(body: fn()) {
    for count in 1..=4 {
        run_on(Runtime::builder().workers(count), body);
    }
}

/// Joins two closures, of which the second begins, in a fiber of its own, before the first is run.
fn join_apart<A, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B)
where
    A: Send,
    B: Send,
{
    let begun = AtomicBool::new(false);
    daiko::join(
        || {
            yield_until("the second closure", || begun.load(Ordering::Acquire));
            a()
        },
        || {
            begun.store(true, Ordering::Release);
            b()
        },
    )
}

/// Raises a panic with this payload, without a report.
fn raise(payload: &'static str) -> ! {
    panic::resume_unwind(Box::new(payload))
}

/// A computation in the shape of a tree.
#[derive(Clone, Debug)]
enum Work {
    Leaf(u64),
    /// A leaf that suspends first.
    Yields(u64),
    Panics,
    Join(Box<(Work, Work)>),
    /// The second part is spawned, and joined after the first.
    Spawn(Box<(Work, Work)>),
    /// The second part is spawned in a scope.
    Scope(Box<(Work, Work)>),
    /// A leaf that joins where nothing may suspend.
    Enclosed(u64),
}

impl Work {
    /// Returns the result, or `None` if any part panics, by plain recursion.
    fn expected(&self) -> Option<u64> {
        match self {
            Work::Leaf(value) | Work::Yields(value) | Work::Enclosed(value) => Some(*value),
            Work::Panics => None,
            Work::Join(parts) | Work::Spawn(parts) | Work::Scope(parts) => {
                let (a, b) = (parts.0.expected()?, parts.1.expected()?);
                Some(a.wrapping_mul(31).wrapping_add(b))
            }
        }
    }

    /// Returns the number of leaves.
    fn leaves(&self) -> usize {
        match self {
            Work::Join(parts) | Work::Spawn(parts) | Work::Scope(parts) => {
                parts.0.leaves() + parts.1.leaves()
            }
            _ => 1,
        }
    }

    fn run(&self, leaves: &AtomicUsize) -> u64 {
        let both = |parts: (u64, u64)| parts.0.wrapping_mul(31).wrapping_add(parts.1);
        let leaf = || _ = leaves.fetch_add(1, Ordering::Relaxed);
        match self {
            Work::Leaf(value) => {
                leaf();
                *value
            }
            Work::Yields(value) => {
                daiko::yield_now();
                leaf();
                *value
            }
            Work::Panics => {
                leaf();
                raise("on purpose")
            }
            Work::Enclosed(value) => {
                leaf();
                daiko::no_suspend(|| daiko::join(|| *value, || ()).0)
            }
            Work::Join(parts) => both(daiko::join(|| parts.0.run(leaves), || parts.1.run(leaves))),
            Work::Spawn(parts) => daiko::scope(|s| {
                let second = s.spawn(|| parts.1.run(leaves));
                let first = panic::catch_unwind(AssertUnwindSafe(|| parts.0.run(leaves)));
                let second = second.join().map_err(|error| error.into_panic().unwrap());
                both((
                    first.unwrap_or_else(|_| raise("first")),
                    second.unwrap_or_else(|_| raise("second")),
                ))
            }),
            Work::Scope(parts) => {
                let mut second = 0;
                let first = daiko::scope(|s| {
                    s.spawn(|| second = parts.1.run(leaves));
                    parts.0.run(leaves)
                });
                both((first, second))
            }
        }
    }
}

fn work(panics: u32) -> impl Strategy<Value = Work> {
    let leaf = prop_oneof![
        8 => any::<u64>().prop_map(Work::Leaf),
        2 => any::<u64>().prop_map(Work::Yields),
        1 => any::<u64>().prop_map(Work::Enclosed),
        panics => Just(Work::Panics),
    ];
    leaf.prop_recursive(9, 200, 2, |inner| {
        let parts = (inner.clone(), inner).prop_map(Box::new);
        prop_oneof![
            4 => parts.clone().prop_map(Work::Join),
            1 => parts.clone().prop_map(Work::Spawn),
            1 => parts.prop_map(Work::Scope),
        ]
    })
}

fn runs_as_expected(works: Vec<Work>, count: usize, moves: bool) {
    let works = Arc::new(works);
    let runtime = workers(count);
    let fibers: Vec<_> = (0..works.len())
        .map(|index| {
            let works = works.clone();
            let builder = if moves { migratable() } else { Builder::new() };
            let body = move || {
                let (work, leaves) = (&works[index], AtomicUsize::new(0));
                let result = panic::catch_unwind(AssertUnwindSafe(|| work.run(&leaves)));
                assert_eq!(leaves.into_inner(), work.leaves(), "each leaf is run once");
                assert_eq!(result.ok(), work.expected());
            };
            runtime.spawn_with(builder, body).unwrap()
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    end(runtime);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_tree_of_joins_returns_what_plain_calls_would(
        works in prop::collection::vec(prop_oneof![work(0), work(1)], 1..4),
        count in 1..=4usize,
        moves in any::<bool>(),
    ) {
        runs_as_expected(works, count, moves);
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = daiko::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn a_deep_nest_divides_its_work_and_adds_up() {
    for round in 0..20 {
        let runtime = workers(1 + round % 4);
        let fibers = [18, 18, 5].map(|n| runtime.spawn(move || fib(n)));
        assert_eq!(fibers.map(|fiber| fiber.join().unwrap()), [2584, 2584, 5]);
        end(runtime);
    }
}

#[test]
fn more_offers_than_a_worker_keeps_are_run_all_the_same() {
    fn nest(depth: u32) -> u32 {
        if depth == 0 {
            // All offers are open here.
            daiko::yield_now();
            return 0;
        }
        let (a, b) = daiko::join(|| nest(depth - 1), || 1);
        a + b
    }
    for count in 1..=2 {
        run_on(Runtime::builder().workers(count), || {
            let builder = Builder::new().stack_size(4 << 20);
            assert_eq!(builder.spawn(|| nest(1_000)).unwrap().join().unwrap(), 1_000);
        });
    }
}

#[test]
fn the_first_closure_may_wait_for_the_second_by_a_suspension() {
    on_each(|| {
        let (sender, receiver) = sync::channel::bounded(1);
        let both = daiko::join(move || receiver.recv().unwrap(), move || sender.send(7).unwrap());
        assert_eq!(both, (7, ()));
    });
}

#[test]
fn a_second_closure_whose_worker_is_busy_runs_at_last() {
    run_on(Runtime::builder().workers(1), || {
        let done = Arc::new(AtomicBool::new(false));
        let is_done = done.clone();
        let busy =
            daiko::spawn(move || yield_until("the join", || is_done.load(Ordering::Acquire)));
        join_apart(|| (), || ());
        done.store(true, Ordering::Release);
        busy.join().unwrap();
    });
}

thread_local!(static MARK: Cell<u32> = const { Cell::new(0) });

#[test]
fn the_closures_have_the_thread_locals_of_the_caller_and_a_fiber_of_its_own_has_its_own() {
    everywhere(|| {
        MARK.set(1);
        let here = daiko::current();
        let set = |value| {
            let before = MARK.replace(value);
            (before, daiko::current() == here)
        };
        let (a, b) = join_apart(|| set(2), || set(3));
        assert_eq!(a, (1, true));
        assert_eq!((b, MARK.get()), ((0, false), 2));
        // Where nothing may suspend, both are the caller's.
        let both = daiko::no_suspend(|| daiko::join(|| set(4), || set(5)));
        assert_eq!((both, MARK.get()), (((2, true), (4, true)), 5));
    });
}

#[test]
fn a_second_closure_that_was_not_begun_runs_in_place() {
    run_on(Runtime::builder().workers(1), || {
        let here = daiko::current();
        MARK.set(1);
        let second = daiko::join(|| MARK.set(2), || (MARK.get(), daiko::current() == here)).1;
        assert_eq!(second, (2, true));
    });
}

#[test]
fn a_fiber_that_borrows_joins_fibers_that_borrow() {
    for count in 1..=2 {
        let runtime = workers(count);
        // SAFETY: the bodies keep nothing in thread-local storage across a suspension.
        let builder = unsafe { Builder::new().borrowed() };
        let fiber = runtime.spawn_with(builder, || (join_apart(|| 1, || 2), fib(15)));
        assert_eq!(fiber.unwrap().join().unwrap(), ((1, 2), 610));
        end(runtime);
    }
}

#[test]
fn a_second_closure_has_as_large_a_stack_as_the_caller() {
    fn deep(left: usize) -> usize {
        let frame = std::hint::black_box([left; 512]);
        if left == 0 { 0 } else { 1 + deep(left - 1) + frame[7] - left }
    }
    run_on(Runtime::builder().workers(2), || {
        let builder = Builder::new().stack_size(16 << 20);
        let both = builder.spawn(|| join_apart(|| (), || deep(1_000))).unwrap();
        assert_eq!(both.join().unwrap().1, 1_000);
    });
}

#[test]
fn the_panic_of_either_closure_comes_out_behind_the_other_and_the_first_wins() {
    on_each(|| {
        for apart in [false, true] {
            let ran = AtomicUsize::new(0);
            let part = |text: &'static str| {
                let ran = &ran;
                move || {
                    let _count = OnDrop(|| _ = ran.fetch_add(1, Ordering::Relaxed));
                    if !text.is_empty() {
                        raise(text);
                    }
                }
            };
            for (first, second, expected) in [("a", "", "a"), ("", "b", "b"), ("a", "b", "a")] {
                let text = panic_of(|| match apart {
                    false => drop(daiko::join(part(first), part(second))),
                    true => drop(join_apart(part(first), part(second))),
                });
                assert_eq!((text.as_str(), ran.swap(0, Ordering::Relaxed)), (expected, 2));
            }
            assert!(!std::thread::panicking() && !daiko::panicking());
        }
    });
}

/// A panic payload that panics when it is dropped.
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        raise("dropped");
    }
}

#[test]
fn a_second_payload_that_panics_when_dropped_does_no_harm() {
    on_each(|| {
        let spite = || panic::resume_unwind(Box::new(Spiteful));
        assert_eq!(panic_of(|| daiko::join(|| raise("a"), spite)), "a");
        assert_eq!(panic_of(|| join_apart(|| raise("a"), spite)), "a");
    });
}

#[test]
fn results_and_captures_are_dropped_once_whatever_panics() {
    on_each(|| {
        let drops = Drops::default();
        for case in 0..8 {
            let (captured, returned) = (drops.token(), drops.token());
            let a = move || {
                let _captured = captured;
                if case & 1 != 0 { raise("a") } else { returned }
            };
            let (captured, returned) = (drops.token(), drops.token());
            let b = move || {
                let _captured = captured;
                if case & 2 != 0 { raise("b") } else { returned }
            };
            let joined = panic::catch_unwind(AssertUnwindSafe(|| match case & 4 {
                0 => daiko::join(a, b),
                _ => join_apart(a, b),
            }));
            assert_eq!(joined.is_ok(), case & 3 == 0);
            drop(joined);
            drops.assert_all();
        }
    });
}

#[test]
fn a_cancel_ends_both_closures_before_the_caller_unwinds() {
    on_each(|| {
        for waits_in_first in [true, false] {
            let drops = Drops::default();
            let (a, b, frame) = (drops.token(), drops.token(), drops.token());
            let begun = Arc::new(AtomicBool::new(false));
            let runs = begun.clone();
            let caller = daiko::spawn(move || {
                let _frame = frame;
                join_apart(
                    || {
                        let _a = a;
                        runs.store(true, Ordering::Release);
                        if waits_in_first {
                            daiko::park();
                        }
                    },
                    || {
                        let _b = b;
                        loop {
                            daiko::park();
                        }
                    },
                );
            });
            yield_until("the first closure", || begun.load(Ordering::Acquire));
            caller.cancel();
            assert!(matches!(caller.join(), Err(JoinError::Cancelled)));
            drops.assert_all();
        }
    });
}

#[test]
fn a_cancel_before_the_second_closure_has_begun_drops_it() {
    run_on(Runtime::builder().workers(1), || {
        let (drops, ran) = (Drops::default(), Arc::new(AtomicBool::new(false)));
        let (token, runs) = (drops.token(), ran.clone());
        let caller = daiko::spawn(move || {
            daiko::join(
                || panic::resume_unwind(Box::new("not a cancel")),
                move || {
                    let _token = token;
                    runs.store(true, Ordering::Release);
                },
            )
        });
        assert!(matches!(caller.join(), Err(JoinError::Panicked(_))));
        assert!(ran.swap(false, Ordering::Acquire), "run behind a panic that is no cancel");
        let (token, runs) = (drops.token(), ran.clone());
        let timed_out = time::timeout(Duration::ZERO, || {
            // The first suspension raises the end of the timeout.
            daiko::join(daiko::yield_now, move || {
                let _token = token;
                runs.store(true, Ordering::Release);
            })
        });
        assert!(timed_out.is_err() && !ran.load(Ordering::Acquire));
        drops.assert_all();
    });
}

#[test]
fn a_timeout_ends_a_second_closure_that_runs_elsewhere_and_nothing_else() {
    on_each(|| {
        let inside = AtomicUsize::new(0);
        let timed_out = time::timeout(Duration::from_millis(5), || {
            join_apart(
                || (),
                || {
                    inside.fetch_add(1, Ordering::Relaxed);
                    let _leave = OnDrop(|| _ = inside.fetch_sub(1, Ordering::Relaxed));
                    loop {
                        daiko::park();
                    }
                },
            )
        });
        assert!(timed_out.is_err());
        assert_eq!(inside.load(Ordering::Relaxed), 0, "ended before the frame was left");
        assert_eq!(join_apart(|| 1, || 2), (1, 2), "the caller goes on");
    });
}

#[test]
fn a_runtime_that_ends_unwinds_joins_that_wait() {
    for count in 1..=4 {
        let (drops, waiting) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let runtime = workers(count);
        for _ in 0..20 {
            let (drops, waiting) = (drops.clone(), waiting.clone());
            runtime.spawn(move || {
                let part = || {
                    let _token = drops.token();
                    waiting.fetch_add(1, Ordering::Release);
                    daiko::park();
                };
                daiko::join(|| daiko::join(part, part), || daiko::join(part, part));
            });
        }
        crate::support::until("all parts", || waiting.load(Ordering::Acquire) == 80);
        assert_eq!(runtime.shutdown().leaked, 0);
        drops.assert_all();
        assert_eq!(drops.made(), 80);
    }
}

#[test]
fn a_runtime_that_ends_in_the_midst_of_joins_leaks_none() {
    for round in 0..10 {
        let runtime = workers(1 + round % 4);
        for n in 0..20 {
            runtime.spawn(move || {
                for _ in 0..50 {
                    fib(n % 12);
                    daiko::yield_now();
                }
            });
        }
        assert_eq!(runtime.shutdown().leaked, 0);
    }
}

#[test]
fn a_shielded_caller_waits_for_both_in_spite_of_a_cancel() {
    on_each(|| {
        let (sender, receiver) = sync::channel::bounded::<u32>(1);
        let begun = Arc::new(AtomicBool::new(false));
        let runs = begun.clone();
        let caller = daiko::spawn(move || {
            daiko::cancel::shield(|| {
                join_apart(|| runs.store(true, Ordering::Release), || receiver.recv().unwrap()).1
            })
        });
        yield_until("the join", || begun.load(Ordering::Acquire));
        caller.cancel();
        sender.send(5).unwrap();
        assert_eq!(caller.join().unwrap(), 5);
    });
}

#[test]
fn a_thread_that_is_no_fiber_joins_by_the_default_runtime() {
    let mut numbers = [1, 2];
    let (first, second) = numbers.split_at_mut(1);
    let is_fiber = || daiko::try_current().is_some();
    let both = daiko::join(
        || {
            first[0] += 10;
            is_fiber()
        },
        || {
            second[0] += 20;
            is_fiber()
        },
    );
    assert_eq!((both, numbers), ((true, true), [11, 22]));
    assert_eq!(panic_of(|| daiko::join(|| raise("a"), || ())), "a");
    assert_eq!(fib(10), 55);
}

#[test]
fn a_poller_and_a_destructor_that_unwinds_join_in_place() {
    run_on(Runtime::builder().workers(2), || {
        let (sender, receiver) = sync::channel::oneshot();
        let mut sender = Some(sender);
        let registration = agent::register(move || match sender.take() {
            Some(sender) => {
                let both = daiko::join(|| 1, || 2);
                let panics = panic_of(|| daiko::join(|| raise("a"), || raise("b")));
                drop(sender.send((both, panics)));
                1
            }
            None => 0,
        });
        assert_eq!(receiver.recv().unwrap(), ((1, 2), "a".to_owned()));
        drop(registration);
        let sum = Cell::new(0);
        let text = panic_of(|| {
            let _sums = OnDrop(|| sum.set(fib(10)));
            raise("unwinds")
        });
        assert_eq!((text.as_str(), sum.get()), ("unwinds", 55));
    });
}

#[test]
fn a_join_that_waits_is_unwound_by_a_cancel_and_again_if_it_is_caught() {
    on_each(|| {
        let begun = Arc::new(AtomicBool::new(false));
        let runs = begun.clone();
        let caller = daiko::spawn(move || {
            let part = || {
                runs.store(true, Ordering::Release);
                daiko::park();
            };
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| join_apart(|| (), part)));
            assert!(outcome.unwrap_err().is::<Cancelled>());
            let again = panic::catch_unwind(daiko::yield_now);
            assert!(again.unwrap_err().is::<Cancelled>());
            // Neither is offered there, so there is no wait that a cancel could end.
            assert_eq!(daiko::no_suspend(|| daiko::join(|| 1, || 2)), (1, 2));
        });
        yield_until("the second closure", || begun.load(Ordering::Acquire));
        caller.cancel();
        caller.join().unwrap();
    });
}

/// Children that have begun and not ended, and their largest number.
#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Alive {
    fn enter(&self) -> impl Drop {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        OnDrop(|| _ = self.now.fetch_sub(1, Ordering::Relaxed))
    }
}

/// Spawns a child for each of `width` parts, and joins them in order.
fn nest(alive: &Arc<Alive>, depth: usize, width: usize) -> usize {
    let _entered = alive.enter();
    if depth == 0 {
        return 1;
    }
    let child = || {
        let alive = alive.clone();
        daiko::spawn(move || nest(&alive, depth - 1, width))
    };
    let children: Vec<_> = (0..width).map(|_| child()).collect();
    children.into_iter().map(|child| child.join().unwrap()).sum()
}

#[test]
fn a_nest_of_children_begins_depth_first_where_it_is_joined() {
    let runtime = workers(1);
    let alive = Arc::new(Alive::default());
    let counted = alive.clone();
    assert_eq!(runtime.run(move || nest(&counted, 6, 4)), 4096);
    // Seven levels; the queues get a turn now and then, and begin a part of the nest each time.
    let most = alive.most.load(Ordering::Relaxed);
    assert!(most <= 150, "{most} fibers were alive at a time, of 5461");
    end(runtime);
}

/// Spawns a child for each of `width` parts in a scope, which waits for them.
fn scoped_nest(alive: &Alive, depth: usize, width: usize) {
    let _entered = alive.enter();
    if depth > 0 {
        daiko::scope(|s| {
            for _ in 0..width {
                s.spawn(|| scoped_nest(alive, depth - 1, width));
            }
        });
    }
}

#[test]
fn a_nest_of_scopes_begins_depth_first_where_it_is_waited_for() {
    let runtime = workers(1);
    let alive = Arc::new(Alive::default());
    let counted = alive.clone();
    runtime.run(move || scoped_nest(&counted, 6, 4));
    let most = alive.most.load(Ordering::Relaxed);
    assert!(most <= 150, "{most} fibers were alive at a time, of 5461");
    end(runtime);
}

#[test]
fn a_joiner_that_begins_its_child_starves_no_neighbour() {
    run_on(Runtime::builder().workers(1), || {
        let turns = Arc::new(AtomicUsize::new(0));
        let counts = turns.clone();
        let neighbour = daiko::spawn(move || {
            for _ in 0..10 {
                counts.fetch_add(1, Ordering::Relaxed);
                daiko::yield_now();
            }
        });
        let mut joins = 0;
        while turns.load(Ordering::Relaxed) < 10 {
            daiko::spawn(|| ()).join().unwrap();
            joins += 1;
            assert!(joins < 100_000, "the neighbour had {turns:?} turns");
        }
        neighbour.join().unwrap();
    });
}

#[test]
fn a_child_that_was_cancelled_or_unparked_before_its_joiner_begins_it_notices() {
    run_on(Runtime::builder().workers(1), || {
        for builder in [Builder::new as fn() -> Builder, migratable] {
            let ran = Arc::new(AtomicBool::new(false));
            let runs = ran.clone();
            let body = move || runs.store(true, Ordering::Relaxed);
            let cancelled = builder().spawn(body).unwrap();
            cancelled.cancel();
            assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
            assert!(!ran.load(Ordering::Relaxed));
            let parked = builder().spawn(daiko::park).unwrap();
            parked.fiber().unpark();
            parked.join().unwrap();
            let panicked = builder().spawn(|| raise("child")).unwrap();
            assert!(panicked.join().unwrap_err().into_panic().is_ok());
        }
    });
}
