//! Fiber-locals: each fiber has a value of its own, from its first use to the end of the fiber.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{
    Drops, Token, end, migratable, panic_of, run_on, until, workers, yield_until,
};
use daiko::{Builder, JoinError, Runtime, fiber_local};

fn on_each(body: fn()) {
    for count in 1..=2 {
        run_on(Runtime::builder().workers(count), body);
    }
}

fiber_local! {
    static COUNT: Cell<u32> = const { Cell::new(7) };
    static LIST: RefCell<Vec<u32>> = RefCell::new(vec![1]);
    static TOKEN: RefCell<Option<Token>> = RefCell::new(None);
}

#[test]
fn every_fiber_has_its_own() {
    on_each(|| {
        COUNT.set(1);
        for builder in [Builder::new as fn() -> Builder, migratable] {
            let fibers: Vec<_> = (0..100)
                .map(|i| {
                    let body = move || {
                        assert_eq!(
                            COUNT.get(),
                            7,
                            "the value that another fiber on this stack has left"
                        );
                        LIST.with(|list| {
                            for _ in 0..10 {
                                COUNT.set(i);
                                // Borrowed across the suspension.
                                let mut list = list.borrow_mut();
                                list.push(i);
                                daiko::yield_now();
                                assert_eq!(COUNT.get(), i);
                            }
                        });
                        LIST.with_borrow(|list| {
                            assert_eq!(list[..], [&[1][..], &[i; 10]].concat())
                        });
                    };
                    builder().spawn(body).unwrap()
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        }
        assert_eq!(COUNT.get(), 1);
    });
}

#[test]
fn a_thread_has_its_own_as_well() {
    COUNT.set(1);
    LIST.with_borrow_mut(|list| list.push(2));
    std::thread::spawn(|| assert_eq!(COUNT.get(), 7)).join().unwrap();
    run_on(Runtime::builder().workers(1), || {
        assert_eq!(COUNT.replace(2), 7);
        assert_eq!(daiko::blocking(|| COUNT.get()), 7, "that of the thread of the call");
        assert_eq!(COUNT.get(), 2);
    });
    assert_eq!((COUNT.get(), LIST.take()), (1, vec![1, 2]));
}

#[test]
fn a_value_is_dropped_before_the_join_returns() {
    on_each(|| {
        let drops = Drops::default();
        for end in [|| {}, || std::panic::resume_unwind(Box::new("on purpose"))] {
            for builder in [Builder::new as fn() -> Builder, migratable] {
                let token = drops.token();
                let body = move || {
                    TOKEN.set(Some(token));
                    daiko::yield_now();
                    end();
                };
                let _either = builder().spawn(body).unwrap().join();
                drops.assert_all();
            }
        }
    });
}

#[test]
fn a_value_is_dropped_where_its_fiber_is_cancelled() {
    let (runtime, drops) = (workers(2), Drops::default());
    let there = Arc::new(AtomicUsize::new(0));
    let fibers = [Builder::new(), migratable()].map(|builder| {
        let (token, is_there) = (drops.token(), there.clone());
        let body = move || {
            TOKEN.set(Some(token));
            is_there.fetch_add(1, Ordering::Release);
            loop {
                daiko::park();
            }
        };
        runtime.spawn_with(builder, body).unwrap()
    });
    until("the fibers", || there.load(Ordering::Acquire) == 2);
    let [pinned, migratable] = fibers;
    pinned.cancel();
    assert!(matches!(pinned.join(), Err::<(), _>(JoinError::Cancelled)));
    assert_eq!(drops.dropped(), 1);
    assert_eq!(runtime.shutdown().unwound, 1);
    assert!(matches!(migratable.join(), Err::<(), _>(JoinError::Cancelled)));
    drops.assert_all();
}

/// The results of the destructors below, in their order.
type Found = Arc<std::sync::Mutex<Vec<(&'static str, Option<u32>)>>>;

/// Reads another local when it is dropped.
struct Looks {
    name: &'static str,
    at: fn() -> Option<u32>,
    found: Found,
}

impl Drop for Looks {
    fn drop(&mut self) {
        daiko::yield_now();
        self.found.lock().unwrap().push((self.name, (self.at)()));
    }
}

fiber_local! {
    static FIRST: RefCell<Option<Looks>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<Looks>> = const { RefCell::new(None) };
    static LATE: Cell<u32> = Cell::new(5);
}

#[test]
fn destructors_run_in_turn_and_may_use_other_locals() {
    on_each(|| {
        let found = Found::default();
        let (first, second) = (found.clone(), found.clone());
        let body = move || {
            // Looks at a local that is gone: the first that was initialised is dropped last.
            let looks = Looks { name: "first", at: || SECOND.try_with(|_| 0).ok(), found: first };
            FIRST.set(Some(looks));
            // Looks at itself, and at a local that this look initialises.
            let at = || {
                assert!(SECOND.try_with(|_| ()).is_err());
                assert!(FIRST.try_with(|first| first.borrow().is_some()).unwrap());
                let text = panic_of(|| SECOND.with(|_| ()));
                assert!(text.contains("try_with"), "{text}");
                LATE.try_with(Cell::get).ok()
            };
            SECOND.set(Some(Looks { name: "second", at, found: second }));
        };
        daiko::spawn(body).join().unwrap();
        let found = found.lock().unwrap();
        assert_eq!(found[..], [("second", Some(5)), ("first", None)]);
    });
}

#[test]
fn a_destructor_that_panics_keeps_no_other_from_running() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    fiber_local!(static BAD: Bad = Bad);
    on_each(|| {
        let drops = Drops::default();
        let token = drops.token();
        let fiber = daiko::spawn(move || {
            TOKEN.set(Some(token));
            BAD.with(|_| 3)
        });
        assert_eq!(fiber.join().unwrap(), 3);
        drops.assert_all();
    });
}

#[test]
fn a_destructor_is_not_cancelled() {
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.store(1, Ordering::Release);
            yield_until("the cancel", || self.0.load(Ordering::Acquire) == 2);
            // Yields often enough that the worker reads its messages, which it does at every 61st
            // pick.
            for _ in 0..100 {
                daiko::yield_now();
            }
            self.0.store(3, Ordering::Release);
        }
    }
    fiber_local!(static WAITS: RefCell<Option<Waits>> = RefCell::new(None));
    for count in 1..=2 {
        let (runtime, stage) = (workers(count), Arc::new(AtomicUsize::new(0)));
        let waits = Waits(stage.clone());
        let fiber = runtime.spawn(move || {
            WAITS.set(Some(waits));
            7
        });
        until("the destructor", || stage.load(Ordering::Acquire) == 1);
        fiber.cancel();
        stage.store(2, Ordering::Release);
        assert_eq!(fiber.join().unwrap(), 7);
        assert_eq!(stage.load(Ordering::Acquire), 3);
        end(runtime);
    }
}

/// The result of a detached fiber is dropped after its locals.
#[test]
fn locals_used_by_the_destructor_of_a_result_are_dropped_too() {
    struct Uses(Option<Token>);
    impl Drop for Uses {
        fn drop(&mut self) {
            TOKEN.set(self.0.take());
            COUNT.set(8);
        }
    }
    run_on(Runtime::builder().workers(1), || {
        let drops = Drops::default();
        let uses = Uses(Some(drops.token()));
        drop(daiko::spawn(move || uses));
        yield_until("its end", || drops.dropped() == 1);
        assert_eq!(daiko::spawn(|| COUNT.get()).join().unwrap(), 7, "nothing is left on the stack");
    });
}

#[test]
fn an_initialiser_may_use_locals_its_own_too() {
    fn depth() -> u32 {
        thread_local!(static CALLS: Cell<u32> = const { Cell::new(0) });
        CALLS.set(CALLS.get() + 1);
        match CALLS.get() {
            3 => COUNT.get(),
            calls => calls + ITSELF.with(|&inner| inner),
        }
    }
    fiber_local!(static ITSELF: u32 = depth());
    run_on(Runtime::builder().workers(1), || {
        // The innermost call initialised the value first.
        assert_eq!(ITSELF.with(|&value| value), 7);
        assert_eq!(ITSELF.with(|&value| value), 7);
    });
}

#[test]
fn an_initialiser_that_panics_leaves_nothing() {
    fiber_local!(static FAILS: u32 = match COUNT.replace(0) {
        0 => 5,
        _ => std::panic::resume_unwind(Box::new("on purpose")),
    });
    run_on(Runtime::builder().workers(1), || {
        assert_eq!(panic_of(|| FAILS.with(|_| ())), "on purpose");
        assert_eq!(FAILS.with(|&value| value), 5);
    });
}

#[test]
fn a_fiber_may_have_many() {
    macro_rules! many {
        ($($name:ident)*) => {
            fiber_local! { $(static $name: Cell<usize> = const { Cell::new(0) };)* }
            const MANY: &[&daiko::FiberLocal<Cell<usize>>] = &[$(&$name),*];
        };
    }
    many!(A B C D E F G H I J K L M N O P Q R S T U V W X Y Z);
    on_each(|| {
        for round in 0..3 {
            let fiber = daiko::spawn(move || {
                for (i, local) in MANY.iter().enumerate() {
                    assert_eq!(local.replace(i + round), 0);
                    daiko::yield_now();
                }
                MANY.iter().enumerate().all(|(i, local)| local.get() == i + round)
            });
            assert!(fiber.join().unwrap());
        }
    });
}

#[test]
fn large_and_aligned_values_have_room() {
    #[repr(align(256))]
    struct Aligned([u8; 20_000]);
    fiber_local!(static ALIGNED: Aligned = Aligned([3; 20_000]));
    on_each(|| {
        let fiber = Builder::new().stack_size(1 << 20).spawn(|| {
            ALIGNED.with(|value| {
                assert_eq!(std::ptr::from_ref(value).addr() % 256, 0);
                value.0.iter().map(|&byte| u32::from(byte)).sum::<u32>()
            })
        });
        assert_eq!(fiber.unwrap().join().unwrap(), 60_000);
    });
}
