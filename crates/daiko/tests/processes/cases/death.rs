//! The state after a worker's process was killed.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use daiko::agent::Poller;
use daiko::sync::{Mutex, Semaphore, channel};
use daiko::{Builder, JoinError, JoinHandle, Runtime};

use super::{can_trace, processes};
use crate::support::child::emulated;
use crate::{CASE, End};

super::cases! {
    only_the_fiber_of_a_killed_worker_is_lost_to_its_joiners End::Well,
    work_for_a_killed_worker_runs_in_its_successor End::Well,
    a_fiber_that_suspended_from_its_own_code_is_in_it_again End::Well,
    a_fiber_that_has_used_the_runtime_and_is_back_is_lost_alone End::Well,
    a_worker_killed_in_its_sleep_loses_nothing End::Well,
    workers_are_killed_again_and_again_under_load End::Well,
    the_stacks_of_lost_fibers_come_back End::Well,
    a_worker_killed_at_any_moment_is_replaced_or_ends_the_program End::Well,
    a_fiber_that_unwound_in_a_killed_process_is_lost_and_its_neighbours_may_panic End::Well,
    a_poller_goes_on_in_the_successor_of_a_worker_that_is_killed_in_it End::Well,
    an_untraced_worker_recovers_the_objects_of_its_fiber End::Well,
    an_untraced_worker_killed_in_its_agent_takes_the_program_along End::Abort(AGENT),
    a_signal_that_ends_a_worker_does_so_whichever_it_is End::Well,
    a_fiber_lost_in_its_stack_overflow_is_named End::Said(1, "daiko: stack overflow in fiber 'deep'"),
}

const AGENT: &str = "(signal: 9 (SIGKILL)) and its agent was at work; the program ends with it";

pub(super) fn kill(process: u32) {
    // SAFETY: it takes plain integers.
    assert_eq!(unsafe { libc::kill(process as i32, libc::SIGKILL) }, 0);
}

/// Returns the process of a worker; asks again if the fiber that it asks is killed.
pub(super) fn process_of(runtime: &Runtime, worker: usize) -> u32 {
    let ask = || runtime.spawn_with(Builder::new().on(worker), std::process::id).unwrap();
    std::iter::repeat_with(|| ask().join()).find_map(Result::ok).unwrap()
}

/// Stores the process of the calling fiber, which then stays in user code for ever.
pub(super) fn run_for_ever(at: &AtomicU32) -> ! {
    at.store(std::process::id(), Ordering::Release);
    loop {
        std::hint::spin_loop();
    }
}

/// Waits until another process has stored a value, and returns it.
pub(super) fn await_change(word: &AtomicU32) -> u32 {
    loop {
        match word.load(Ordering::Acquire) {
            0 => std::thread::yield_now(),
            value => return value,
        }
    }
}

/// Returns a fiber in user code on a worker, and its process.
pub(super) fn victim(
    runtime: &Runtime,
    on: usize,
    before: impl FnOnce() + Send + 'static,
) -> (JoinHandle<()>, u32) {
    let at = Arc::new(AtomicU32::new(0));
    let here = at.clone();
    let body = move || {
        before();
        run_for_ever(&here)
    };
    let fiber = runtime.spawn_with(Builder::new().on(on), body).unwrap();
    let process = await_change(&at);
    (fiber, process)
}

pub(super) fn assert_lost<T>(joined: Result<T, JoinError>) {
    assert!(matches!(joined, Err(JoinError::WorkerDied)));
}

/// Ends a runtime; checks that so many fibers were lost, and that none is left.
pub(super) fn end(runtime: Runtime, died: usize) {
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked, report.died), (0, 0, died));
}

fn only_the_fiber_of_a_killed_worker_is_lost_to_its_joiners() {
    let runtime = processes(2).build().unwrap();
    // Joined by a fiber, by a thread, and after the end.
    let ((first, process), detached) = (victim(&runtime, 1, || ()), Arc::new(AtomicU32::new(0)));
    let joiner = runtime.spawn_with(Builder::new().on(0), move || first.join()).unwrap();
    kill(process);
    assert_lost(joiner.join().unwrap());
    let (second, process) = victim(&runtime, 1, || ());
    kill(process);
    assert_lost(second.join());
    let (third, process) = victim(&runtime, 0, || ());
    kill(process);
    while !third.is_finished() {
        std::thread::yield_now();
    }
    assert_lost(third.join());
    let here = detached.clone();
    drop(runtime.spawn_with(Builder::new().on(0), move || run_for_ever(&here)).unwrap());
    let process = await_change(&detached);
    kill(process);
    assert_ne!(process_of(&runtime, 0), process);
    end(runtime, 4);
}

fn work_for_a_killed_worker_runs_in_its_successor() {
    let runtime = processes(1).build().unwrap();
    let (parked, started) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let sleepers: Vec<_> = (0..10)
        .map(|i| {
            let started = started.clone();
            runtime.spawn(move || {
                started.fetch_add(1, Ordering::Release);
                daiko::time::sleep(Duration::from_millis(30 + i));
                i
            })
        })
        .collect();
    let seen = parked.clone();
    let parks = runtime.spawn(move || {
        seen.store(std::process::id(), Ordering::Release);
        daiko::park();
        std::process::id()
    });
    let before = await_change(&parked);
    while started.load(Ordering::Acquire) < 10 {
        std::thread::yield_now();
    }
    let (lost, process) = victim(&runtime, 0, || ());
    // By messages, through the injector, and by a wake.
    let queued: Vec<_> = (0..10)
        .map(|i| runtime.spawn_with(Builder::new().on(0), move || i).unwrap())
        .chain((10..20).map(|i| runtime.spawn(move || i)))
        .collect();
    parks.fiber().unpark();
    kill(process);
    assert_lost(lost.join());
    assert_eq!(process, before);
    assert_ne!(parks.join().unwrap(), before);
    assert!(queued.into_iter().map(|fiber| fiber.join().unwrap()).eq(0..20));
    assert!(sleepers.into_iter().map(|fiber| fiber.join().unwrap()).eq(0..10));
    end(runtime, 1);
}

fn a_fiber_that_suspended_from_its_own_code_is_in_it_again() {
    let runtime = processes(1).build().unwrap();
    let parked = Arc::new(AtomicU32::new(0));
    let seen = parked.clone();
    let suspends = move || {
        seen.store(1, Ordering::Release);
        daiko::park();
        (0..100).for_each(|_| daiko::yield_now());
        run_for_ever(&seen)
    };
    let lost: JoinHandle<()> = runtime.spawn(suspends);
    await_change(&parked);
    lost.fiber().unpark();
    while parked.load(Ordering::Acquire) == 1 {
        std::thread::yield_now();
    }
    kill(parked.load(Ordering::Acquire));
    assert_lost(lost.join());
    end(runtime, 1);
}

fn a_fiber_that_has_used_the_runtime_and_is_back_is_lost_alone() {
    let runtime = processes(2).build().unwrap();
    let (sender, receiver) = channel::bounded(2);
    let kept = Arc::new(AtomicU32::new(0));
    let child = kept.clone();
    let before = move || {
        daiko::spawn(|| 1).join().unwrap();
        sender.send(1).unwrap();
        sender.try_send(2).unwrap();
        daiko::time::sleep(Duration::from_micros(10));
        daiko::park_timeout(Duration::from_micros(10));
        let parks = daiko::spawn(daiko::park);
        parks.fiber().unpark();
        parks.join().unwrap();
        // The child runs on, and its block stays, as the handle is never dropped.
        std::mem::forget(daiko::spawn(move || child.store(1, Ordering::Release)));
    };
    let (lost, process) = victim(&runtime, 1, before);
    kill(process);
    assert_lost(lost.join());
    await_change(&kept);
    let received = runtime.run(move || [receiver.recv().unwrap(), receiver.recv().unwrap()]);
    assert_eq!(received, [1, 2]);
    end(runtime, 1);
}

fn a_worker_killed_in_its_sleep_loses_nothing() {
    let runtime = processes(2).build().unwrap();
    for worker in [0, 1] {
        let process = process_of(&runtime, worker);
        let path = format!("/proc/{process}/stat");
        while !std::fs::read_to_string(&path).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        kill(process);
        assert_ne!(process_of(&runtime, worker), process);
    }
    end(runtime, 0);
}

fn workers_are_killed_again_and_again_under_load() {
    const KILLS: usize = 40;
    let runtime = processes(2).build().unwrap();
    let over = Arc::new(AtomicU32::new(0));
    let load: Vec<_> = (0..8).map(|_| runtime.spawn(load(over.clone()))).collect();
    for i in 0..KILLS {
        let (lost, process) = victim(&runtime, i % 2, || ());
        kill(process);
        assert_lost(lost.join());
    }
    over.store(1, Ordering::Release);
    let rounds: u64 = load.into_iter().map(|fiber| fiber.join().unwrap()).sum();
    assert!(rounds > 0);
    end(runtime, KILLS);
}

/// Returns a body that spawns, locks, sends and sleeps until `over` is set, and returns the number
/// of completed rounds.
fn load(over: Arc<AtomicU32>) -> impl FnOnce() -> u64 + Send + 'static {
    move || {
        let (shared, doors) = (Arc::new(Mutex::new(0_u64)), Arc::new(Semaphore::new(1)));
        let mut rounds = 0;
        while over.load(Ordering::Acquire) == 0 {
            let (sender, receiver) = channel::bounded(3);
            let (adds, passes) = (shared.clone(), doors.clone());
            let child = daiko::spawn(move || {
                let _permit = passes.acquire();
                for number in 0..3 {
                    *adds.lock().unwrap() += 1;
                    sender.send(number).unwrap();
                }
            });
            // A lost child has not begun to use the shared objects.
            if child.join().is_ok() {
                assert!(receiver.iter().eq(0..3));
                rounds += 1;
            }
            daiko::time::sleep(Duration::from_micros(100));
        }
        assert_eq!(*shared.lock().unwrap(), 3 * rounds);
        rounds
    }
}

fn the_stacks_of_lost_fibers_come_back() {
    const LOSSES: usize = 30;
    let runtime = processes(1).build().unwrap();
    let at = Arc::new(AtomicU32::new(0));
    let here = at.clone();
    // The worker spawns these fibers, as its free stacks serve other spawners only once it sleeps.
    let loses = runtime.spawn(move || {
        let lose = |_| {
            let frame = Arc::new(AtomicUsize::new(0));
            let (seen, here) = (frame.clone(), here.clone());
            let lost = daiko::spawn(move || {
                let local = 0_u8;
                let address = std::ptr::from_ref(std::hint::black_box(&local)).addr();
                seen.store(address, Ordering::Release);
                run_for_ever(&here)
            });
            assert_lost(lost.join());
            frame.load(Ordering::Acquire)
        };
        (0..LOSSES).map(lose).collect::<HashSet<usize>>().len()
    });
    for _ in 0..LOSSES {
        let process = await_change(&at);
        at.store(0, Ordering::Release);
        kill(process);
    }
    // Frames reuse the stacks of the first slab, which has 16.
    let frames = loses.join().unwrap();
    assert!(frames <= 16, "{frames}");
    end(runtime, LOSSES);
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 32]);
    if frame[7] == u64::MAX { 0 } else { recurse(depth + 1) + std::hint::black_box(frame)[5] }
}

fn a_fiber_lost_in_its_stack_overflow_is_named() {
    let runtime = processes(2).build().unwrap();
    let deep = runtime.spawn_with(Builder::new().name("deep"), || std::hint::black_box(recurse(0)));
    assert_lost(deep.unwrap().join());
    end(runtime, 1);
}

fn a_worker_killed_at_any_moment_is_replaced_or_ends_the_program() {
    const NUMBER: &str = "DAIKO_PROCESS_KILL";
    if let Ok(number) = std::env::var(NUMBER) {
        return kill_under_load(number.parse().unwrap());
    }
    let mut replaced = 0;
    for number in 0..40 {
        let mut program = emulated::own_program();
        let name = "a_worker_killed_at_any_moment_is_replaced_or_ends_the_program";
        let run = program.env(CASE, name).env(NUMBER, number.to_string()).output().unwrap();
        let words = String::from_utf8_lossy(&run.stderr);
        let ended = run.status.signal() == Some(libc::SIGABRT)
            && words.contains("(signal: 9 (SIGKILL)) and it")
            && words.ends_with("; the program ends with it\n");
        assert!(run.status.success() || ended, "{number}: {:?}: {words}", run.status);
        replaced += u32::from(run.status.success());
    }
    assert!(replaced > 0);
}

/// Kills workers at arbitrary moments.
fn kill_under_load(number: u32) {
    const KILLS: u32 = 5;
    // SAFETY: it takes a plain integer. If the test hangs, the alarm ends it.
    unsafe { libc::alarm(60) };
    let runtime = processes(2).build().unwrap();
    let over = Arc::new(AtomicU32::new(0));
    let load: Vec<_> = (0..2).map(|_| runtime.spawn(load(over.clone()))).collect();
    let computing: Vec<_> = (0..6).map(|_| runtime.spawn(compute(over.clone()))).collect();
    for kills in 0..KILLS {
        let victim = process_of(&runtime, (number + kills) as usize % 2);
        std::thread::sleep(Duration::from_micros(u64::from(number + kills) * 171 % 3_000));
        kill(victim);
        while process_of(&runtime, (number + kills) as usize % 2) == victim {}
    }
    over.store(1, Ordering::Release);
    let lost = load.into_iter().filter_map(|fiber| fiber.join().err()).count();
    let lost = lost + computing.into_iter().filter_map(|fiber| fiber.join().err()).count();
    let report = runtime.shutdown();
    assert!(lost <= report.died && report.died <= KILLS as usize);
}

/// Returns a body that is in user code most of the time.
fn compute(over: Arc<AtomicU32>) -> impl FnOnce() + Send + 'static {
    move || {
        while over.load(Ordering::Acquire) == 0 {
            assert_eq!((0..100_000).map(std::hint::black_box).max(), Some(99_999));
            daiko::yield_now();
        }
    }
}

/// Parks where it is dropped.
struct Parks(Arc<AtomicU32>);

impl Drop for Parks {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Release);
        daiko::park();
    }
}

fn a_fiber_that_unwound_in_a_killed_process_is_lost_and_its_neighbours_may_panic() {
    let runtime = processes(1).build().unwrap();
    let parks = Arc::new(AtomicU32::new(0));
    let here = parks.clone();
    let unwinds = runtime.spawn(move || {
        let _parks = Parks(here);
        std::panic::resume_unwind(Box::new(1_u8));
    });
    await_change(&parks);
    let (lost, process) = victim(&runtime, 0, || ());
    kill(process);
    assert_lost(lost.join());
    unwinds.fiber().unpark();
    assert_lost(unwinds.join());
    let counts = runtime.run(|| {
        let before = std::thread::panicking();
        let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(2_u8)));
        (before, caught.is_err(), std::thread::panicking())
    });
    assert_eq!(counts, (false, true, false));
    end(runtime, 2);
}

/// Stores the process that calls it, and returns once another value is stored.
struct Stays(Arc<AtomicU32>);

impl Poller for Stays {
    fn poll(&mut self) -> usize {
        const OVER: u32 = u32::MAX;
        let here = std::process::id();
        if self.0.load(Ordering::Acquire) != OVER {
            self.0.store(here, Ordering::Release);
            while self.0.load(Ordering::Acquire) == here {
                std::hint::spin_loop();
            }
        }
        0
    }
}

/// Kills a worker in its agent, which calls a poller. Returns its process, and the word that the
/// poller reads.
fn kill_in_poller(runtime: &Runtime) -> (u32, Arc<AtomicU32>) {
    let at = Arc::new(AtomicU32::new(0));
    let poller = Stays(at.clone());
    // The registration is kept.
    runtime.run(|| std::mem::forget(daiko::agent::register(poller)));
    let process = await_change(&at);
    kill(process);
    (process, at)
}

fn a_poller_goes_on_in_the_successor_of_a_worker_that_is_killed_in_it() {
    if !can_trace("a poller that goes on") {
        return;
    }
    let runtime = processes(1).build().unwrap();
    let (dead, at) = kill_in_poller(&runtime);
    // In the middle of that call the poller believes to be in the dead process.
    at.store(0, Ordering::Release);
    assert_ne!(await_change(&at), dead, "the next call is in the successor");
    at.store(u32::MAX, Ordering::Release);
    end(runtime, 0);
}

fn an_untraced_worker_recovers_the_objects_of_its_fiber() {
    let runtime = processes(2).trace_workers(false).build().unwrap();
    let shared = Arc::new(Mutex::new(0));
    let held = shared.clone();
    let (lost, process) = victim(&runtime, 1, move || std::mem::forget(held.lock().unwrap()));
    kill(process);
    assert_lost(lost.join());
    assert!(runtime.run(move || shared.lock().is_err()));
    let process = process_of(&runtime, 0);
    assert_ne!(process, process_of(&runtime, 1));
    end(runtime, 1);
}

fn an_untraced_worker_killed_in_its_agent_takes_the_program_along() {
    let runtime = processes(1).trace_workers(false).build().unwrap();
    kill_in_poller(&runtime);
    runtime.run(|| ());
}

fn a_signal_that_ends_a_worker_does_so_whichever_it_is() {
    let runtime = processes(2).build().unwrap();
    for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGSTKFLT] {
        let (lost, process) = victim(&runtime, 1, || ());
        // SAFETY: it takes plain integers.
        assert_eq!(unsafe { libc::kill(process as i32, signal) }, 0);
        assert_lost(lost.join());
    }
    end(runtime, 3);
}
