//! An item that ends and is used again, under a reader.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::*;
use crate::barrier::Fences;

struct Item {
    used: AtomicBool,
    name: UnsafeCell<u32>,
}

struct Shared {
    hazard: Hazard<Item>,
    item: Item,
}

// SAFETY: loom checks that the protocol protects the name.
unsafe impl Send for Shared {}
// SAFETY: as for Send.
unsafe impl Sync for Shared {}

#[test]
fn the_item_that_a_reader_looks_at_is_not_written() {
    loom::model(|| {
        let item = Item { used: AtomicBool::new(true), name: UnsafeCell::new(1) };
        let shared = Arc::new(Shared { hazard: Hazard::new(), item });
        let other = shared.clone();
        let user = thread::spawn(move || {
            let Shared { hazard, item } = &*other;
            item.used.store(false, Ordering::Relaxed);
            while hazard.is_at(item, &Fences) {
                thread::yield_now();
            }
            // SAFETY: the item is not in use, and the reader does not look at it.
            item.name.with_mut(|name| unsafe { *name = 2 });
            item.used.store(true, Ordering::Release);
        });
        let Shared { hazard, item } = &*shared;
        let guard = hazard.at(item, &Fences);
        if item.used.load(Ordering::Acquire) {
            // SAFETY: in use, and so not written before the end of the protected read.
            let name = item.name.with(|name| unsafe { *name });
            assert!(name == 1 || name == 2);
        }
        drop(guard);
        user.join().unwrap();
    });
}
