//! The ring of `ring.c`, in Rust: for a comparison of their times.
//!
//! Run it by `cargo run --release -p daiko-capi --example ring -- 1000 2000`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use daiko::{Fiber, Runtime};

#[repr(align(64))]
struct Member {
    datum: AtomicU64,
    fiber: OnceLock<Fiber>,
}

impl Member {
    fn give(&self, datum: u64) {
        self.datum.store(datum, Ordering::Release);
        if let Some(fiber) = self.fiber.get() {
            fiber.unpark();
        }
    }
}

fn circulate(own: &Member, next: &Member, is_last: bool, laps: u64) {
    for lap in 1..=laps {
        while own.datum.load(Ordering::Acquire) != lap {
            daiko::park();
        }
        next.give(lap + u64::from(is_last));
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (n, laps) = (numbers.next().unwrap_or(100), numbers.next().unwrap_or(100) as u64);
    let runtime = Runtime::builder().workers(1).guard_size(64 << 10).build().expect("a runtime");
    let elapsed = runtime.run(move || {
        let member = |_| Member { datum: AtomicU64::new(0), fiber: OnceLock::new() };
        let members: &'static [Member] = Vec::leak((0..n).map(member).collect());
        let spawn = |i: usize| {
            let (own, next) = (&members[i], &members[(i + 1) % n]);
            let fiber = daiko::spawn(move || circulate(own, next, i + 1 == n, laps));
            own.fiber.set(fiber.fiber().clone()).expect("set once");
            fiber
        };
        let fibers: Vec<_> = (0..n).map(spawn).collect();
        (0..3).for_each(|_| daiko::yield_now());
        let start = Instant::now();
        members[0].give(1);
        for fiber in fibers {
            fiber.join().expect("the fiber ends");
        }
        start.elapsed()
    });
    println!("{:.2} ns per hop", elapsed.as_nanos() as f64 / (n as u64 * laps) as f64);
}
