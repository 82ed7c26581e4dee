//! Runs the target that `DAIKO_FUZZ_TARGET` names under libFuzzer.
#![no_main]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    env, process,
    sync::LazyLock,
};

use daiko_fuzz::{FuzzTarget, TARGETS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
    },
    |data: &[u8]| TARGET(data)
);

static TARGET: LazyLock<FuzzTarget> = LazyLock::new(|| {
    let name = env::var("DAIKO_FUZZ_TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.0 == name).map(|target| target.1).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.0).collect();
        eprintln!("daiko-fuzz: set DAIKO_FUZZ_TARGET to one of: {}", names.join(", "));
        process::exit(2)
    })
});

/// Largest allocation, far more than any input of libFuzzer's 4 KiB justifies.
const MOST_BYTES: usize = 16 << 20;

/// The system's allocator, with an abort for requests above [`MOST_BYTES`].
struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

impl Bounded {
    fn check(bytes: usize) {
        if bytes > MOST_BYTES {
            eprintln!("daiko-fuzz: an allocation of {bytes} bytes");
            process::abort();
        }
    }
}

// SAFETY: every call is forwarded to the system's allocator, unless the process ends.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::check(layout.size());
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::check(layout.size());
        // SAFETY: passed on to the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        Self::check(bytes);
        // SAFETY: passed on to the caller.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}
