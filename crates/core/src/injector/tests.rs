//! The injector against a plain queue.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::element::{boxed, take};
use crate::lock::testing::Tester;
use crate::testing::scaled;

#[derive(Clone, Debug)]
enum Step {
    Push,
    PushChain(usize),
    Pop,
    PopBatch(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Push),
        (0usize..6).prop_map(Step::PushChain),
        Just(Step::Pop),
        (0usize..6).prop_map(Step::PopBatch),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_plain_queue(steps in prop::collection::vec(step(), 0..scaled(200))) {
        let (injector, me) = (Injector::new(), Tester(1));
        let (mut queue, mut values) = (VecDeque::new(), 0..);
        for step in steps {
            match step {
                Step::Push => {
                    let value = values.next().unwrap();
                    queue.push_back(value);
                    // SAFETY: fresh; freed by `take` after it left the queue.
                    unsafe { injector.push(&me, boxed(value)) };
                }
                Step::PushChain(count) => {
                    let mut chain = Chain::new();
                    for value in values.by_ref().take(count) {
                        queue.push_back(value);
                        // SAFETY: as above.
                        unsafe { chain.push(boxed(value)) };
                    }
                    injector.push_chain(&me, chain);
                }
                Step::Pop => prop_assert_eq!(injector.pop(&me).map(take), queue.pop_front()),
                Step::PopBatch(max) => {
                    let expected: Vec<_> = queue.drain(..max.min(queue.len())).collect();
                    let batch: Vec<_> = injector.pop_batch(&me, max).map(take).collect();
                    prop_assert_eq!(batch, expected);
                }
            }
            prop_assert_eq!((injector.len(), injector.is_empty()), (queue.len(), queue.is_empty()));
        }
        prop_assert!(injector.pop_batch(&me, usize::MAX).map(take).eq(queue));
    }
}
