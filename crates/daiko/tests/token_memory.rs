//! Tokens give back all memory that they allocate. The test is a program of its own, as it counts
//! all allocations of its process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use daiko::cancel::CancelToken;

struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: `System` does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes families that are cancelled or not, and drops them from either end.
fn family(index: usize) {
    let parent = CancelToken::new();
    let children = [(); 5].map(|()| parent.child());
    let grandchild = children[index % 5].child();
    let (is_cancelled, goes_first) = (index & 1 == 0, index & 2 == 0);
    if is_cancelled {
        parent.cancel();
    }
    if goes_first {
        drop(parent);
    }
    assert_eq!(grandchild.is_cancelled(), is_cancelled);
    drop(children);
}

#[test]
fn dropped_tokens_leave_nothing_behind() {
    family(0);
    let before = LIVE.load(Ordering::Relaxed);
    (0..1000).for_each(family);
    let left = LIVE.load(Ordering::Relaxed) - before;
    // The harness has a thread of its own, which may allocate a little meanwhile.
    assert!(left < 100, "{left} allocations are left");
}
