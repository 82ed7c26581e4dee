//! Starts many fibers, suspends them all, and wakes and joins each.
//!
//! ```text
//! million [FIBERS [KIB]]    # 1,000,000 fibers on stacks of 16 KiB
//! ```
//!
//! A suspended fiber takes the page of its stack that it has touched; with thread-locals of its
//! own, as here, two.

use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use daiko::Runtime;

/// Number of fibers that have run until they suspended.
static STARTED: AtomicUsize = AtomicUsize::new(0);

fn fiber(index: usize) -> usize {
    STARTED.fetch_add(1, Ordering::Relaxed);
    daiko::park();
    index
}

fn start_and_join(fibers: usize) {
    let begin = Instant::now();
    let handles: Vec<_> = (0..fibers).map(|i| daiko::spawn(move || fiber(i))).collect();
    while STARTED.load(Ordering::Relaxed) < fibers {
        daiko::yield_now();
    }
    println!("{fibers} fibers are suspended after {:?}", begin.elapsed());
    let begin = Instant::now();
    handles.iter().for_each(|handle| handle.fiber().unpark());
    let sum: usize = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
    assert_eq!(sum, fibers * fibers.saturating_sub(1) / 2);
    println!("they were woken and joined in {:?}", begin.elapsed());
}

fn main() {
    let number = |index, default| {
        env::args().nth(index).map_or(default, |text| text.parse().expect("a number"))
    };
    let (fibers, kib) = (number(1, 1_000_000), number(2, 16));
    let builder = Runtime::builder().stack_size(kib << 10).guard_size(4096);
    builder.build().expect("a runtime").run(move || start_and_join(fibers));
}
