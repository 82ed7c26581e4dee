//! Rayon inside fibers, and fibers inside rayon.

use std::sync::Arc;
use std::sync::mpsc;

use daiko::Builder;
use daiko_libraries::{everywhere, hundred};
use rayon::prelude::*;

#[test]
fn fibers_wait_for_parallel_iterators() {
    hundred(|member| {
        member.meet();
        let sum: usize = (0..1000).into_par_iter().map(|number| number * member.index).sum();
        assert_eq!(sum, 499_500 * member.index);
        let (left, right) = rayon::join(|| member.index, || member.index + 1);
        assert_eq!(left + 1, right);
        assert!(rayon::current_thread_index().is_none());
    });
}

#[test]
fn threads_of_rayon_spawn_and_join_fibers() {
    everywhere(|runtime, kind| {
        let sum: usize = (0..200)
            .into_par_iter()
            .map(|number| {
                assert!(daiko::try_current().is_none());
                let fiber = runtime.spawn_with(kind(), move || {
                    daiko::yield_now();
                    assert!(rayon::current_thread_index().is_none());
                    number
                });
                fiber.unwrap().join().unwrap()
            })
            .sum();
        assert_eq!(sum, 19_900);
    });
}

/// The threads of the pool are fibers, one on each worker, and know the pool by a thread-local.
#[test]
fn fibers_are_the_threads_of_a_pool() {
    let runtime = Arc::new(daiko::Runtime::builder().workers(2).build().unwrap());
    let (send, receive) = mpsc::channel();
    let spawns = runtime.clone();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).spawn_handler(move |thread| {
        let place = Builder::new().pinned().on(thread.index());
        send.send(spawns.spawn_with(place, || thread.run()).unwrap()).unwrap();
        Ok(())
    });
    let pool = pool.build().unwrap();
    let sum: usize = pool.install(|| {
        let each = (0..1000usize).into_par_iter().map(|number| {
            assert!(daiko::try_current().is_some());
            let before = rayon::current_thread_index();
            daiko::yield_now();
            assert_eq!((rayon::current_thread_index(), before.is_some()), (before, true));
            number
        });
        each.sum()
    });
    assert_eq!(sum, 499_500);
    drop(pool);
    receive.try_iter().for_each(|fiber| fiber.join().unwrap());
}
