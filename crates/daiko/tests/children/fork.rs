//! Children by `fork`: they have no workers of the parent's, and may have their own.
//!
//! A child that hangs is killed by a signal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::child::in_child_well;
use crate::support::{assert_names, end, migratable, panic_of, run_on, workers};
use daiko::{Builder, JoinError, JoinHandle, Runtime, SpawnError};

/// Seconds after which a child hangs.
const HANGS: u32 = 60;

/// Forks, runs `body` in the child, and returns its wait status.
fn status_of_fork(body: impl FnOnce()) -> i32 {
    // SAFETY: glibc makes its allocator usable in the child; the call takes a plain integer.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(HANGS);
            body();
            return -1;
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        status
    }
}

/// Forks, runs `body` in the child, which ends with it, and asserts that it succeeds.
#[track_caller]
fn in_fork(body: impl FnOnce()) {
    let status = status_of_fork(|| {
        let result = catch_unwind(AssertUnwindSafe(body));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(result.is_err().into()) };
    });
    assert_eq!(status, 0, "the child failed, or hung (14)");
}

fn default_runtime_works() {
    let work = || daiko::spawn(|| daiko::blocking(|| 5)).join().unwrap();
    assert_eq!(daiko::run(work), 5);
    let fibers: Vec<_> = (0..100).map(|i| daiko::spawn(move || i)).collect();
    assert_eq!(fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>(), 4950);
}

#[test]
fn a_child_has_a_default_runtime_of_its_own() {
    in_child_well("fork::a_child_has_a_default_runtime_of_its_own", || {
        // Before the parent has one, and after.
        in_fork(default_runtime_works);
        default_runtime_works();
        in_fork(|| {
            default_runtime_works();
            in_fork(default_runtime_works);
            default_runtime_works();
        });
        daiko::run(|| in_fork(default_runtime_works));
        default_runtime_works();
    });
}

/// Checks that `runtime`, which the caller has inherited, refuses all that needs a worker.
fn refuses(runtime: &Runtime) {
    for builder in [Builder::new(), Builder::new().on(0), Builder::new().spread(), migratable()] {
        let error = runtime.spawn_with(builder, || ()).unwrap_err();
        assert!(matches!(error, SpawnError::Forked), "{error:?}");
        assert_names(&error, "build another one in the child");
    }
    for text in [
        panic_of(|| runtime.spawn(|| ())),
        panic_of(|| runtime.run(|| ())),
        panic_of(|| runtime.scope(|scope| drop(scope.spawn(|| ())))),
    ] {
        assert!(text.contains("inherited by fork"), "{text}");
    }
    assert_eq!(runtime.counters().len(), 2 * runtime.workers());
    runtime.set_preset(runtime.preset());
}

#[test]
fn an_inherited_runtime_refuses_and_another_works() {
    in_child_well("fork::an_inherited_runtime_refuses_and_another_works", || {
        for at_work in [false, true] {
            let runtime = workers(2);
            if at_work {
                runtime.run(|| ());
            }
            let inherited = || {
                refuses(&runtime);
                let own = workers(2);
                assert_eq!(own.run(|| daiko::spawn(|| 6).join().unwrap()), 6);
                refuses(&runtime);
                end(own);
            };
            in_fork(inherited);
            std::thread::scope(|scope| scope.spawn(|| in_fork(inherited)).join().unwrap());
            assert_eq!(runtime.run(|| 7), 7);
            end(runtime);
        }
    });
}

#[test]
fn an_inherited_runtime_ends_with_the_child_only() {
    in_child_well("fork::an_inherited_runtime_ends_with_the_child_only", || {
        let mut runtime = Some(workers(2));
        in_fork(|| drop(runtime.take()));
        in_fork(|| {
            let text = panic_of(|| runtime.take().unwrap().shutdown());
            assert!(text.contains("by the process that built it"), "{text}");
        });
        assert_eq!(runtime.as_ref().unwrap().run(|| 7), 7);
        end(runtime.take().unwrap());
    });
}

/// Uses handles of fibers that run, or have ended, in the parent of the caller.
fn use_handles(parked: [JoinHandle<i32>; 4], ended: JoinHandle<i32>) {
    let [joined, timed, other, dropped] = parked;
    joined.fiber().unpark();
    joined.cancel();
    assert!(!joined.is_finished());
    let error = joined.join().unwrap_err();
    assert!(matches!(error, JoinError::Forked), "{error:?}");
    assert_names(&error, "join it there");
    let outcome = timed.join_timeout(Duration::from_secs(3600)).unwrap();
    assert!(matches!(outcome, Err(JoinError::Forked)), "{outcome:?}");
    run_on(Runtime::builder().workers(1), || {
        other.fiber().unpark();
        other.cancel();
        assert!(matches!(other.join(), Err(JoinError::Forked)));
    });
    drop(dropped);
    assert_eq!(ended.join().unwrap(), 8);
}

#[test]
fn inherited_handles_do_not_wait_for_fibers_of_the_parent() {
    in_child_well("fork::inherited_handles_do_not_wait_for_fibers_of_the_parent", || {
        for builder in [Builder::new, migratable] {
            let runtime = workers(2);
            let park = || {
                daiko::park();
                7
            };
            let parked = [(); 4].map(|()| runtime.spawn_with(builder(), park).unwrap());
            let ended = runtime.spawn(|| 8);
            while !ended.is_finished() {
                std::thread::yield_now();
            }
            let mut handles = Some((parked, ended));
            in_fork(|| {
                let (parked, ended) = handles.take().unwrap();
                use_handles(parked, ended);
            });
            let (parked, ended) = handles.unwrap();
            for fiber in parked {
                fiber.fiber().unpark();
                assert_eq!(fiber.join().unwrap(), 7);
            }
            assert_eq!(ended.join().unwrap(), 8);
            end(runtime);
        }
    });
}

/// The locks of the runtime are taken by threads that the child does not have.
#[test]
fn a_fork_amid_spawns_and_wakes_does_not_hang_the_child() {
    in_child_well("fork::a_fork_amid_spawns_and_wakes_does_not_hang_the_child", || {
        let runtime = Arc::new(workers(2));
        let over = Arc::new(AtomicBool::new(false));
        let spawns = |runtime: Arc<Runtime>, over: Arc<AtomicBool>| {
            while !over.load(Ordering::Relaxed) {
                let fibers = [(); 50].map(|()| runtime.spawn(daiko::park));
                fibers.iter().for_each(|fiber| fiber.fiber().unpark());
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            }
        };
        let threads = [(); 2].map(|()| {
            let (runtime, over) = (runtime.clone(), over.clone());
            std::thread::spawn(move || spawns(runtime, over))
        });
        for _ in 0..100 {
            let mut parked = Some([(); 8].map(|()| runtime.spawn(daiko::park)));
            in_fork(|| {
                assert!(runtime.spawn_with(Builder::new(), || ()).is_err());
                for fiber in parked.take().unwrap() {
                    fiber.fiber().unpark();
                    assert!(matches!(fiber.join(), Ok(()) | Err(JoinError::Forked)));
                }
            });
            for fiber in parked.unwrap() {
                fiber.fiber().unpark();
                fiber.join().unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        end(Arc::into_inner(runtime).unwrap());
    });
}

#[test]
fn a_child_ends_where_the_fiber_that_forked_it_would() {
    in_child_well("fork::a_child_ends_where_the_fiber_that_forked_it_would", || {
        let runtime = workers(1);
        for builder in [Builder::new, migratable] {
            let forks = || status_of_fork(|| ());
            let fiber = runtime.spawn_with(builder(), forks).unwrap();
            assert_eq!(fiber.join().unwrap(), 0);
        }
        end(runtime);
    });
}
