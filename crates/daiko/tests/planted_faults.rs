//! Faults in fibers that a sanitizer has to report (`make sanitize`). Each one is planted in a
//! child process, after the fiber was suspended and resumed.
#![cfg(daiko_sanitize)]

#[path = "../../../tests/child.rs"]
mod child;

use std::process::Output;

use child::{in_child, stderr};
use daiko::process::ProcessError;
use daiko::{BuildError, Runtime};

/// Runs `f` as a fiber of a runtime of two workers.
fn in_fiber(f: impl FnOnce() + Send + 'static) {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.run(f);
    runtime.shutdown();
}

/// Asserts that the child was ended by a report with this name, of a fault in this function.
#[track_caller]
fn assert_reported(output: &Output, sanitizer: &str, fault: &str, function: &str) {
    let report = stderr(output);
    assert!(!output.status.success(), "{report}");
    for part in [sanitizer, fault, function] {
        assert!(report.contains(part), "{part:?} is not in the report\n{report}");
    }
}

/// Their stacks would be known to one process only, so that reports were wrong.
#[test]
fn worker_processes_are_refused() {
    // SAFETY: no process starts.
    let error = unsafe { Runtime::builder().process_workers(1) }.build().unwrap_err();
    assert!(matches!(error, BuildError::Process(ProcessError::Sanitizer)), "{error:?}");
}

#[cfg(daiko_sanitize = "address")]
mod address {
    use super::*;
    use std::hint::black_box;

    #[track_caller]
    fn assert_found(output: &Output, fault: &str, function: &str) {
        assert_reported(output, "ERROR: AddressSanitizer", fault, function);
    }

    #[inline(never)]
    fn reads_behind_a_vector() {
        let vector = vec![0_u8; 16];
        daiko::yield_now();
        // SAFETY: none. This is the fault.
        black_box(unsafe { vector.as_ptr().add(16).read_volatile() });
    }

    #[test]
    fn an_overflow_of_the_heap_is_found() {
        let name = "address::an_overflow_of_the_heap_is_found";
        let output = in_child(name, || in_fiber(reads_behind_a_vector));
        assert_found(&output, "heap-buffer-overflow", "reads_behind_a_vector");
    }

    #[inline(never)]
    fn reads_freed_memory() {
        let freed = Box::into_raw(Box::new(7_u8));
        // SAFETY: from `into_raw`, once.
        drop(unsafe { Box::from_raw(freed) });
        daiko::yield_now();
        // SAFETY: none. This is the fault.
        black_box(unsafe { freed.read_volatile() });
    }

    #[test]
    fn a_use_of_freed_memory_is_found() {
        let name = "address::a_use_of_freed_memory_is_found";
        let output = in_child(name, || in_fiber(reads_freed_memory));
        assert_found(&output, "heap-use-after-free", "reads_freed_memory");
    }

    #[inline(never)]
    fn reads_behind_an_array() {
        let array = black_box([0_u8; 16]);
        daiko::yield_now();
        // SAFETY: none. This is the fault.
        black_box(unsafe { black_box(&array).as_ptr().add(16).read_volatile() });
    }

    #[test]
    fn an_overflow_of_a_local_is_found() {
        let name = "address::an_overflow_of_a_local_is_found";
        let output = in_child(name, || in_fiber(reads_behind_an_array));
        assert_found(&output, "stack-buffer-overflow", "reads_behind_an_array");
    }

    #[inline(never)]
    fn address_of_a_local() -> *const u8 {
        let local = black_box([7_u8; 16]);
        black_box(local.as_ptr())
    }

    #[inline(never)]
    fn reads_a_frame_that_has_ended() {
        let local = address_of_a_local();
        daiko::yield_now();
        // SAFETY: none. This is the fault.
        black_box(unsafe { local.read_volatile() });
    }

    /// The locals of a fiber lie on a stack that AddressSanitizer switches with the fiber.
    #[test]
    fn a_use_of_a_local_after_its_frame_is_found() {
        let name = "address::a_use_of_a_local_after_its_frame_is_found";
        let output = in_child(name, || in_fiber(reads_a_frame_that_has_ended));
        assert_found(&output, "stack-use-after-return", "reads_a_frame_that_has_ended");
    }

    /// A panic clears the marks of all frames up to the end of the stack, which has to be known.
    #[test]
    fn a_panic_in_a_fiber_knows_the_bounds_of_the_stack() {
        let name = "address::a_panic_in_a_fiber_knows_the_bounds_of_the_stack";
        let output = in_child(name, || {
            in_fiber(|| {
                let panicking = daiko::spawn(|| {
                    daiko::yield_now();
                    panic!("planted")
                });
                assert!(panicking.join().is_err());
            });
        });
        let printed = stderr(&output);
        assert!(output.status.success(), "{printed}");
        assert!(printed.contains("planted") && !printed.contains("AddressSanitizer"), "{printed}");
    }
}

#[cfg(daiko_sanitize = "thread")]
mod thread {
    use super::*;
    use daiko::Builder;
    use std::ptr;

    static mut SHARED: u64 = 0;

    #[inline(never)]
    fn writes_without_a_lock() {
        for _ in 0..1000 {
            // SAFETY: none. This is the fault.
            unsafe {
                let shared = &raw mut SHARED;
                ptr::write(shared, ptr::read(shared) + 1);
            }
            daiko::yield_now();
        }
    }

    /// Runs two fibers that write, each on a worker.
    fn write_on(workers: [usize; 2]) {
        in_fiber(move || {
            let on = |worker| Builder::new().on(worker).spawn(writes_without_a_lock).unwrap();
            workers.map(on).into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    }

    #[test]
    fn a_race_of_fibers_on_two_workers_is_found() {
        let name = "thread::a_race_of_fibers_on_two_workers_is_found";
        let output = in_child(name, || write_on([0, 1]));
        assert_reported(&output, "WARNING: ThreadSanitizer", "data race", "writes_without_a_lock");
    }

    /// Two fibers on one worker share its thread, so they cannot race.
    #[test]
    fn fibers_on_one_worker_do_not_race() {
        let name = "thread::fibers_on_one_worker_do_not_race";
        child::in_child_well(name, || write_on([1, 1]));
    }
}
