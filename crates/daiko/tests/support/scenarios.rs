//! Scenarios that every runtime must pass, however it was built.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use daiko::watch::{self, NotificationArea, at_least};
use daiko::{Builder, Fiber, Runtime, RuntimeBuilder};

use super::{Drops, PRESETS, end, migratable};

/// Runs all scenarios, with one and two workers, under every preset.
pub(crate) fn all(builder: impl Fn() -> RuntimeBuilder) {
    for workers in 1..=2 {
        for preset in PRESETS {
            let runtime = builder().workers(workers).preset(preset).build().unwrap();
            runtime.run(|| {
                tree(6);
                ring(false);
                ring(true);
                stolen_migratable();
                watches();
                area();
                blocking();
                panics();
                futures();
                scopes();
                locals();
                large_and_named();
            });
            from_threads(&runtime);
            end(runtime);
            unwinding(builder().workers(workers).preset(preset).build().unwrap());
        }
    }
}

/// Fibers await each other, and are woken from the other workers.
fn futures() {
    let fibers: Vec<_> = (0..20)
        .map(|i| {
            let builder = if i % 2 == 0 { migratable() } else { Builder::new().spread() };
            let mut left = i;
            let counts = std::future::poll_fn(move |context| {
                if left == 0 {
                    return Poll::Ready(i);
                }
                left -= 1;
                let waker = context.waker().clone();
                Builder::new().spread().spawn(|| waker.wake()).unwrap();
                Poll::Pending
            });
            builder.spawn(|| daiko::block_on(counts)).unwrap()
        })
        .collect();
    let sum = daiko::spawn_future(async {
        let mut sum = 0;
        for fiber in fibers {
            sum += fiber.await.unwrap();
        }
        sum
    });
    assert_eq!(daiko::block_on(sum).unwrap(), 190);
}

fn tree(depth: u32) -> u32 {
    if depth == 0 {
        return 1;
    }
    let children: Vec<_> = (0..2).map(|_| daiko::spawn(move || tree(depth - 1))).collect();
    let sum = children.into_iter().map(|child| child.join().unwrap()).sum();
    assert_eq!(sum, 1 << depth);
    sum
}

/// Passes a lap counter round, by park and unpark, and checks it at each switch.
fn ring(may_migrate: bool) {
    const N: usize = 20;
    const LAPS: u64 = 50;
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..N).map(|_| AtomicU64::new(0)).collect());
    let fibers: Arc<Vec<OnceLock<Fiber>>> = Arc::new((0..N).map(|_| OnceLock::new()).collect());
    let handles: Vec<_> = (0..N)
        .map(|i| {
            let (words, fibers) = (words.clone(), fibers.clone());
            let builder = if may_migrate { migratable() } else { daiko::Builder::new() };
            builder
                .spawn(move || {
                    for lap in 1..=LAPS {
                        while words[i].load(Ordering::Acquire) != lap {
                            daiko::park();
                        }
                        let sent = if i + 1 == N { lap + 1 } else { lap };
                        let next = (i + 1) % N;
                        words[next].store(sent, Ordering::Release);
                        fibers[next].get().unwrap().unpark();
                    }
                })
                .unwrap()
        })
        .collect();
    for (fiber, handle) in fibers.iter().zip(&handles) {
        fiber.set(handle.fiber().clone()).unwrap();
    }
    words[0].store(1, Ordering::Release);
    fibers[0].get().unwrap().unpark();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(words[0].load(Ordering::Relaxed), LAPS + 1);
}

fn stolen_migratable() {
    let count = Arc::new(AtomicUsize::new(0));
    let fibers: Vec<_> = (0..50)
        .map(|_| {
            let count = count.clone();
            let body = move || {
                for _ in 0..20 {
                    count.fetch_add(1, Ordering::Relaxed);
                    daiko::yield_now();
                }
            };
            migratable().spawn(body).unwrap()
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert_eq!(count.load(Ordering::Relaxed), 1000);
}

fn watches() {
    let word = Arc::new(AtomicU64::new(0));
    let fibers: Vec<_> = (1..=20)
        .map(|mark| {
            let word = word.clone();
            daiko::spawn(move || match mark % 2 {
                0 => watch::wait_until(&*word, at_least(mark)),
                _ => watch::wait_until_notified(&*word, at_least(mark)),
            })
        })
        .collect();
    daiko::yield_now();
    for mark in 1..=20 {
        word.store(mark, Ordering::Release);
        watch::notify(&*word);
        daiko::yield_now();
    }
    for (mark, fiber) in (1..).zip(fibers) {
        assert!((mark..=20).contains(&fiber.join().unwrap()));
    }
}

fn area() {
    for notified in [false, true] {
        let make = if notified { NotificationArea::<u32>::notified } else { NotificationArea::new };
        let (area, slots) = make(40);
        let fibers: Vec<_> =
            slots.into_iter().map(|mut slot| daiko::spawn(move || slot.wait().unwrap())).collect();
        for index in 0..40 {
            area.notify_with(index, index as u32 + 1);
        }
        for (value, fiber) in (1..).zip(fibers) {
            assert_eq!(fiber.join().unwrap(), value);
        }
    }
}

fn blocking() {
    let here = daiko_sys::thread::id();
    let text = String::from("borrowed");
    let (len, there) = daiko::blocking(|| (text.len(), daiko_sys::thread::id()));
    assert_eq!(len, 8);
    assert_ne!(here, there);
}

fn panics() {
    let fiber = daiko::spawn(|| std::panic::resume_unwind(Box::new(17_u8)));
    let payload = fiber.join().unwrap_err().into_panic().unwrap();
    assert_eq!(*payload.downcast::<u8>().unwrap(), 17);
}

/// Uses a closure and a result that are too large to be kept inline.
fn scopes() {
    let mut numbers = [0; 100];
    daiko::scope(|s| {
        for (i, number) in numbers.iter_mut().enumerate() {
            let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
            let body = move || {
                daiko::yield_now();
                *number = i;
            };
            builder.spawn_scoped(s, body).unwrap();
        }
    });
    assert!(numbers.iter().enumerate().all(|(i, &number)| number == i));
}

fn locals() {
    daiko::fiber_local! {
        static FIRST: Cell<u32> = const { Cell::new(0) };
        static SECOND: RefCell<Vec<u32>> = RefCell::new(Vec::new());
    }
    let fibers: Vec<_> = (0..100)
        .map(|i| {
            let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
            let body = move || {
                FIRST.set(i);
                SECOND.with_borrow_mut(|second| second.push(i));
                daiko::yield_now();
                FIRST.get() == i && SECOND.take() == [i]
            };
            builder.spawn(body).unwrap()
        })
        .collect();
    assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap()));
}

fn large_and_named() {
    let builder = daiko::Builder::new().name("large").stack_size(4 << 20);
    let outer = builder.clone().spawn(move || {
        let large = [7_u8; 200_000];
        let body = move || large.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let fiber = builder.clone().spawn(body).unwrap();
        assert_eq!(fiber.fiber().name(), Some("large"));
        assert_eq!(fiber.join().unwrap(), 1_400_000);
        assert!(builder.spawn(|| [7_u8; 200_000]).unwrap().join().unwrap() == large);
    });
    outer.unwrap().join().unwrap();
}

fn from_threads(runtime: &Runtime) {
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for round in 0..50_u64 {
                    let word = Arc::new(AtomicU64::new(0));
                    let watched = word.clone();
                    let waiter = runtime.spawn(move || {
                        daiko::park();
                        watch::wait_until(&*watched, at_least(1))
                    });
                    waiter.fiber().unpark();
                    word.store(round + 1, Ordering::Release);
                    assert_eq!(waiter.join().unwrap(), round + 1);
                }
            });
        }
    });
}

fn unwinding(runtime: Runtime) {
    let drops = Drops::default();
    for i in 0..50 {
        let token = drops.token();
        let builder = if i % 2 == 0 { migratable() } else { daiko::Builder::new() };
        let body = move || {
            let _token = token;
            loop {
                daiko::park();
            }
        };
        drop(runtime.spawn_with(builder, body).unwrap());
    }
    assert_eq!(runtime.shutdown().leaked, 0);
    assert_eq!(drops.made(), 50);
    drops.assert_all();
}
