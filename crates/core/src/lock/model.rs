//! Two holders, one value.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{testing::Tester, *};

struct Shared {
    lock: QueueLock,
    value: UnsafeCell<u32>,
}

// SAFETY: the model checks that the value is touched under the lock only.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

fn add(shared: &Shared, by: u32) {
    let _held = shared.lock.lock(&Tester(by));
    // SAFETY: the lock is held.
    shared.value.with_mut(|value| unsafe { *value += 1 });
}

#[test]
fn holders_exclude_each_other() {
    loom::model(|| {
        let shared = Arc::new(Shared { lock: QueueLock::new(), value: UnsafeCell::new(0) });
        let other = shared.clone();
        let handle = thread::spawn(move || add(&other, 2));
        add(&shared, 1);
        handle.join().unwrap();
        // SAFETY: the other thread has ended.
        assert_eq!(shared.value.with(|value| unsafe { *value }), 2);
    });
}
