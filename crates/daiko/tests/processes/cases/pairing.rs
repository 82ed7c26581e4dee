//! Siblings with workers that are processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use daiko::{Builder, Class};

use super::{end, processes};
use crate::End;

super::cases! {
    complements_of_the_other_process_run_first End::Well,
}

fn complements_of_the_other_process_run_first() {
    let runtime = processes(2).cores([0, 0]).build().unwrap();
    let (running, enough) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (runs, over) = (running.clone(), enough.clone());
    // The fiber does not suspend, and so keeps a worker.
    let neighbour = move || {
        daiko::set_class(Class::Compute);
        runs.store(true, Ordering::Release);
        while !over.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    let neighbour = runtime.spawn_with(Builder::new().on(1), neighbour).unwrap();
    while !running.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let order = runtime.run(|| {
        let ran = Arc::new(Mutex::new(Vec::with_capacity(4)));
        let spawn = |(index, class)| {
            let ran = ran.clone();
            Builder::new().class(class).spawn(move || ran.lock().unwrap().push(index)).unwrap()
        };
        let queued = [Class::Compute, Class::Compute, Class::Stall, Class::Compute];
        let fibers: Vec<_> = queued.into_iter().enumerate().map(spawn).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        Arc::into_inner(ran).unwrap().into_inner().unwrap()
    });
    assert_eq!(order, [2, 3, 0, 1]);
    enough.store(true, Ordering::Release);
    neighbour.join().unwrap();
    end(runtime);
}
