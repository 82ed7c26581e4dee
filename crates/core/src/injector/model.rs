//! Two pushers and a taker.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::element::{boxed, take};
use crate::lock::testing::Tester;

#[test]
fn each_fiber_comes_out_once_and_none_is_forgotten() {
    loom::model(|| {
        let injector = Arc::new(Injector::new());
        let other = injector.clone();
        let pusher = thread::spawn(move || {
            // SAFETY: fresh; freed by `take` after it left the queue.
            unsafe { other.push(&Tester(2), boxed(1)) };
            other.pop(&Tester(2)).map(take)
        });
        // SAFETY: as above.
        unsafe { injector.push(&Tester(1), boxed(0)) };
        let mut values: Vec<_> = injector.pop_batch(&Tester(1), 1).map(take).collect();
        values.extend(pusher.join().unwrap());
        assert_eq!(injector.len(), 2 - values.len());
        values.extend(injector.pop_batch(&Tester(1), 2).map(take));
        values.sort_unstable();
        assert_eq!(values, [0, 1]);
    });
}
