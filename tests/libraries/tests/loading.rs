//! Libraries that are loaded and unloaded while fibers live and start.

use std::collections::HashSet;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use daiko_libraries::late::{Compiled, Loaded, Model};
use daiko_libraries::{FIBERS, everywhere, hundred_in, native};

fn compiled(model: Model, zeros: usize) -> Option<Arc<Compiled>> {
    match Compiled::new(model, zeros) {
        Ok(library) => Some(Arc::new(library)),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Fibers that started before the library was loaded, and fibers that start later, find its first
/// values; also when it is loaded again.
fn every_fiber_finds_first_values(model: Model, zeros: usize) {
    let _alone = alone();
    let Some(library) = compiled(model, zeros) else { return };
    everywhere(|runtime, kind| {
        let (library, slot) = (library.clone(), Arc::new(RwLock::new(None::<Loaded>)));
        let shared = slot.clone();
        let addresses = hundred_in(runtime, kind, move |member| {
            let mut addresses = 0;
            for _ in 0..4 {
                member.meet();
                if member.index == 0 {
                    *shared.write().unwrap() = Some(library.load());
                }
                member.meet();
                let loaded = shared.read().unwrap();
                let own = member.index as c_long;
                addresses = loaded.as_ref().unwrap().assert_new(own, || member.meet());
                drop(loaded);
                member.meet();
                if member.index == 0 {
                    *shared.write().unwrap() = None;
                }
            }
            member.meet();
            if member.index == 0 {
                *shared.write().unwrap() = Some(library.load());
            }
            addresses
        });
        assert_eq!(HashSet::<usize>::from_iter(addresses).len(), FIBERS);
        for _ in 0..2 {
            let shared = slot.clone();
            hundred_in(runtime, kind, move |member| {
                let loaded = shared.read().unwrap();
                loaded.as_ref().unwrap().assert_new(member.index as c_long, || member.meet());
            });
        }
    });
}

#[test]
fn every_fiber_finds_the_first_values_of_static_thread_locals() {
    every_fiber_finds_first_values(Model::InitialExec, 104);
}

#[test]
fn every_fiber_finds_the_first_values_of_dynamic_thread_locals() {
    every_fiber_finds_first_values(Model::GlobalDynamic, 10_000);
}

/// Serialises the tests: there is little static storage for libraries that are loaded late.
fn alone() -> MutexGuard<'static, ()> {
    static STORAGE: Mutex<()> = Mutex::new(());
    STORAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two libraries come and go in turn, in both orders, while other fibers start and end.
fn libraries_come_and_go(model: Model) {
    let _alone = alone();
    let (Some(one), Some(two)) = (compiled(model, 16), compiled(model, 304)) else { return };
    everywhere(|runtime, kind| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let each = || runtime.spawn_with(kind(), fresh_counter).unwrap();
                    [each(), each(), each()].into_iter().for_each(|fiber| fiber.join().unwrap());
                }
            });
            let (one, two) = (one.clone(), two.clone());
            let loads = runtime.spawn_with(kind(), move || {
                for round in 0..30 {
                    let [first, second] = if round % 2 == 0 { [&one, &two] } else { [&two, &one] };
                    let first = first.load();
                    // Unloaded in this order: the loader uses the storage of the newest again.
                    let loaded = Arc::new([second.load(), first]);
                    loaded.iter().for_each(|loaded| _ = loaded.assert_new(round, daiko::yield_now));
                    let each = |own| {
                        let loaded = loaded.clone();
                        let body = move || {
                            loaded.iter().for_each(|one| _ = one.assert_new(own, daiko::yield_now));
                        };
                        kind().spawn(body).unwrap()
                    };
                    let fibers: Vec<_> = (0..10).map(each).collect();
                    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                }
            });
            let end = loads.unwrap().join();
            is_over.store(true, Ordering::Release);
            end.unwrap();
        });
    });
}

/// Asserts that a thread-local of the program is new, and changes it.
fn fresh_counter() {
    // SAFETY: the counter of the calling thread.
    assert_eq!(unsafe { native::counter().replace(1) }, 40);
    daiko::yield_now();
    // SAFETY: as above.
    assert_eq!(unsafe { native::counter().read() }, 1);
}

#[test]
fn libraries_with_static_thread_locals_come_and_go_beside_starting_fibers() {
    libraries_come_and_go(Model::InitialExec);
}

#[test]
fn libraries_with_dynamic_thread_locals_come_and_go_beside_starting_fibers() {
    libraries_come_and_go(Model::GlobalDynamic);
}
