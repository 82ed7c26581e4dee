//! Calls on stacks of the pool: they are calls, also if the closure suspends or panics.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::hint::black_box;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

use crate::support::{Drops, end, migratable, workers};
use daiko::{Builder, JoinError, Runtime, on_pooled_stack};

/// Returns an address in the caller's stack.
#[inline(never)]
fn place() -> usize {
    let local = 0u8;
    black_box(&raw const local).addr()
}

/// Returns true if two addresses lie in one stack of 64 KiB or more, near its top.
fn are_near(first: usize, second: usize) -> bool {
    first.abs_diff(second) < 16 << 10
}

fn run<T: Send + 'static>(
    runtime: &Runtime,
    builder: Builder,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    runtime.spawn_with(builder, body).unwrap().join().unwrap()
}

#[test]
fn calls_of_all_fibers_of_a_worker_use_one_stack() {
    let runtime = workers(1);
    let call = || (place(), on_pooled_stack(place), on_pooled_stack(place), place());
    let first = run(&runtime, Builder::new(), call);
    for builder in [Builder::new(), migratable()] {
        let (before, inside, again, after) = run(&runtime, builder, call);
        assert!(are_near(before, after) && !are_near(before, inside));
        assert!(are_near(inside, again) && are_near(inside, first.1));
    }
    end(runtime);
}

#[test]
fn a_fiber_that_suspends_inside_keeps_the_stack() {
    for builder in [Builder::new as fn() -> Builder, migratable] {
        let runtime = workers(2);
        let places = Arc::new(Mutex::new(Vec::new()));
        let session = |number: usize| {
            let places = Arc::clone(&places);
            move || {
                let inside = on_pooled_stack(|| {
                    let numbers: [usize; 100] = std::array::from_fn(|index| number * index);
                    places.lock().unwrap().push(place());
                    daiko::park();
                    // Other calls have come and gone meanwhile.
                    black_box(&numbers).iter().sum::<usize>()
                });
                assert_eq!(inside, number * 4950);
            }
        };
        let spawn = |number| runtime.spawn_with(builder(), session(number)).unwrap();
        let sessions: Vec<_> = (0..20).map(spawn).collect();
        while places.lock().unwrap().len() < sessions.len() {
            run(&runtime, builder(), || on_pooled_stack(|| black_box([7u8; 4000]).len()));
        }
        {
            let mut places = places.lock().unwrap();
            places.sort_unstable();
            assert!(places.windows(2).all(|pair| !are_near(pair[0], pair[1])), "{places:?}");
        }
        sessions.iter().for_each(|session| session.fiber().unpark());
        sessions.into_iter().for_each(|session| session.join().unwrap());
        end(runtime);
    }
}

#[test]
fn a_nested_call_has_a_stack_of_its_own() {
    let runtime = workers(1);
    run(&runtime, Builder::new(), || {
        let (outer, inner, back) =
            on_pooled_stack(|| (place(), on_pooled_stack(place), on_pooled_stack(place)));
        assert!(!are_near(outer, inner) && are_near(inner, back));
    });
    end(runtime);
}

#[test]
fn a_call_has_the_size_of_the_runtime_not_of_the_fiber() {
    let runtime = Runtime::builder().workers(1).stack_size(1 << 20).build().unwrap();
    let sum = run(&runtime, Builder::new().stack_size(64 << 10), || {
        on_pooled_stack(|| black_box([1u8; 500_000]).iter().filter(|&&byte| byte == 1).count())
    });
    assert_eq!(sum, 500_000);
    end(runtime);
}

#[test]
fn a_panic_passes_with_its_payload_and_the_stack_is_used_again() {
    let runtime = workers(1);
    run(&runtime, Builder::new(), || {
        let drops = Drops::default();
        let inside = Cell::new(0);
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            on_pooled_stack(|| {
                let _token = drops.token();
                inside.set(place());
                panic::resume_unwind(Box::new(7));
            })
        }));
        let payload = result.unwrap_err();
        assert_eq!(payload.downcast_ref::<i32>(), Some(&7));
        assert_eq!(drops.dropped(), 1);
        assert!(!std::thread::panicking());
        assert!(are_near(inside.get(), on_pooled_stack(place)));
    });
    end(runtime);
}

#[test]
fn a_cancel_unwinds_through_the_call() {
    for builder in [Builder::new as fn() -> Builder, migratable] {
        let runtime = workers(2);
        let (drops, outside) = (Drops::default(), Drops::default());
        let (token, outer, (is_there, there)) =
            (drops.token(), outside.token(), std::sync::mpsc::channel());
        let handle = runtime.spawn_with(builder(), move || {
            let _outer = outer;
            on_pooled_stack(move || {
                let _token = token;
                is_there.send(()).unwrap();
                loop {
                    daiko::park();
                }
            })
        });
        let handle = handle.unwrap();
        there.recv().unwrap();
        handle.cancel();
        assert!(matches!(handle.join(), Err::<(), _>(JoinError::Cancelled)));
        assert_eq!((drops.dropped(), outside.dropped()), (1, 1));
        end(runtime);
    }
}

/// A destructor may suspend while its fiber unwinds: the stack is the fiber's until then.
#[test]
fn a_suspension_during_an_unwind_keeps_the_stack() {
    struct Yields(usize);
    impl Drop for Yields {
        fn drop(&mut self) {
            let numbers: [usize; 100] = std::array::from_fn(|index| self.0 * index);
            daiko::yield_now();
            assert_eq!(black_box(&numbers).iter().sum::<usize>(), self.0 * 4950);
        }
    }
    let runtime = workers(1);
    let unwind = |number| {
        on_pooled_stack(|| {
            let _yields = Yields(number);
            panic::resume_unwind(Box::new(number));
        })
    };
    let spawn = |number| runtime.spawn(move || unwind(number));
    let fibers: Vec<_> = (0..10).map(spawn).collect();
    for (number, fiber) in fibers.into_iter().enumerate() {
        let payload = fiber.join().map(|(): ()| ()).unwrap_err().into_panic().unwrap();
        assert_eq!(payload.downcast_ref::<usize>(), Some(&number));
    }
    end(runtime);
}

#[test]
fn a_result_of_any_size_comes_back() {
    #[repr(align(64))]
    struct Aligned([u64; 64]);
    let runtime = workers(1);
    run(&runtime, Builder::new(), || {
        let own = String::from("moved");
        let (aligned, text) = on_pooled_stack(move || (Aligned([9; 64]), own));
        assert!((&raw const aligned).addr().is_multiple_of(64));
        assert_eq!((aligned.0.iter().sum::<u64>(), text.as_str()), (576, "moved"));
        on_pooled_stack(|| ());
    });
    end(runtime);
}

#[test]
fn outside_of_fibers_it_is_a_plain_call() {
    assert!(are_near(place(), on_pooled_stack(place)));
}

#[test]
fn a_backtrace_goes_on_in_the_callers_frames() {
    #[inline(never)]
    fn caller_of_the_call() -> String {
        black_box(on_pooled_stack(|| Backtrace::force_capture().to_string()))
    }
    let runtime = workers(1);
    let text = run(&runtime, Builder::new(), caller_of_the_call);
    assert!(text.contains("call_on_stack") && text.contains("caller_of_the_call"), "{text}");
    end(runtime);
}
