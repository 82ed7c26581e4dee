//! Calls that block, in worker processes that are killed.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use daiko::{Builder, JoinHandle, Runtime};

use super::death::{assert_lost, await_change, end, kill, process_of, run_for_ever, victim};
use super::{can_trace, processes, run_on_two};
use crate::End;

super::cases! {
    many_calls_at_a_time_all_come_back End::Well,
    threads_of_several_processes_leave_each_other_alone End::Well,
    the_panic_of_a_call_comes_back End::Well,
    calls_are_finished_lost_or_made_by_the_successor_and_never_twice End::Well,
    a_call_is_lost_with_its_fiber_when_its_worker_is_killed_asleep End::Well,
    a_fiber_that_goes_on_elsewhere_in_its_call_is_told_of_the_end End::Well,
    a_fiber_that_goes_on_elsewhere_in_its_call_is_lost_with_it End::Well,
    a_call_of_a_worker_that_is_stuck_is_over_for_its_fiber_elsewhere End::Well,
    a_call_that_has_used_the_runtime_and_is_back_is_lost_alone End::Well,
    calls_are_made_while_workers_are_killed_again_and_again End::Well,
    calls_are_made_while_workers_are_killed_at_any_moment End::Well,
    a_worker_killed_while_a_call_uses_the_runtime_takes_the_program_along End::Abort(USES_RUNTIME),
    a_worker_killed_while_a_call_holds_a_lock_takes_the_program_along End::Abort(USES_RUNTIME),
}

const USES_RUNTIME: &str = "(signal: 9 (SIGKILL)) and a blocking call there was using the runtime; the program ends with it";

/// The number of threads that a worker has for calls, at most.
const MOST_CALLS: u32 = 512;

fn many_calls_at_a_time_all_come_back() {
    run_on_two(|| {
        let callers: Vec<_> = (0..1_000_u64)
            .map(|number| {
                daiko::spawn(move || {
                    let borrowed = [number];
                    (0..3).map(|_| daiko::blocking(|| borrowed[0])).sum::<u64>()
                })
            })
            .collect();
        let sum: u64 = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        assert_eq!(sum, 3 * (0..1_000).sum::<u64>());
    });
}

/// Threads of all processes are entered in one table of the standard library, which lies on the
/// heap.
fn threads_of_several_processes_leave_each_other_alone() {
    const CALLS: u32 = 200;
    run_on_two(|| {
        let begun = Arc::new(AtomicU32::new(0));
        let call = |worker| {
            let begun = begun.clone();
            let body = move || {
                daiko::blocking(|| {
                    begun.fetch_add(1, Ordering::Release);
                    await_count(&begun, CALLS);
                });
            };
            Builder::new().on(worker).spawn(body).unwrap()
        };
        let callers: Vec<_> = (0..CALLS as usize).map(|i| call(i % 2)).collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

fn the_panic_of_a_call_comes_back() {
    run_on_two(|| {
        let panics = || daiko::blocking(|| std::panic::resume_unwind(Box::new(17_u8)));
        let payload = std::panic::catch_unwind(panics).unwrap_err();
        assert_eq!(*payload.downcast::<u8>().unwrap(), 17);
    });
}

/// The progress of calls.
#[derive(Default)]
struct Progress {
    asked: AtomicU32,
    begun: AtomicU32,
    ended: AtomicU32,
    /// Lets calls end.
    go: AtomicU32,
}

/// Waits until so many were counted.
fn await_count(count: &AtomicU32, least: u32) {
    while count.load(Ordering::Acquire) < least {
        thread::yield_now();
    }
}

/// Spawns a fiber that makes a call.
fn caller<R: Send + 'static>(
    runtime: &Runtime,
    progress: &Arc<Progress>,
    call: fn(&Progress) -> R,
) -> JoinHandle<R> {
    let progress = progress.clone();
    let body = move || {
        progress.asked.fetch_add(1, Ordering::Release);
        daiko::blocking(|| {
            progress.begun.fetch_add(1, Ordering::Release);
            let result = call(&progress);
            progress.ended.fetch_add(1, Ordering::Release);
            result
        })
    };
    runtime.spawn_with(Builder::new().on(0), body).unwrap()
}

fn block_for_ever() -> ! {
    loop {
        thread::park();
    }
}

/// Waits until it may end. Returns its process, in a box on the heap.
fn wait_for_go(progress: &Progress) -> Box<u32> {
    while progress.go.load(Ordering::Acquire) == 0 {
        thread::sleep(Duration::from_micros(100));
    }
    Box::new(std::process::id())
}

/// Waits until all threads of a process except the first sleep.
fn await_sleep_of_threads(process: u32) {
    let sleeps = |thread: &str| {
        thread == process.to_string()
            || fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"))
                .is_ok_and(|stat| stat.contains(") S "))
    };
    let all_sleep = || {
        let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        threads
            .into_iter()
            .all(|thread| sleeps(&thread.unwrap().file_name().into_string().unwrap()))
    };
    while !all_sleep() {
        thread::yield_now();
    }
}

/// All three kinds at once: calls that have no thread yet, calls that have begun, and calls that
/// have ended without the worker's knowledge, as it runs the user code of a fiber.
fn calls_are_finished_lost_or_made_by_the_successor_and_never_twice() {
    const FINISHED: u32 = 4;
    const QUEUED: u32 = 8;
    let runtime = processes(1).build().unwrap();
    let progress = Arc::new(Progress::default());
    let callers =
        |count, call| (0..count).map(|_| caller(&runtime, &progress, call)).collect::<Vec<_>>();
    let finished = callers(FINISHED, wait_for_go);
    await_count(&progress.begun, FINISHED);
    let lost = callers(MOST_CALLS, |_| block_for_ever());
    await_count(&progress.begun, MOST_CALLS);
    let queued = callers(QUEUED, |_| Box::new(std::process::id()));
    await_count(&progress.asked, FINISHED + MOST_CALLS + QUEUED);
    let (hog, process) = victim(&runtime, 0, || ());
    progress.go.store(1, Ordering::Release);
    await_count(&progress.begun, FINISHED + MOST_CALLS);
    await_sleep_of_threads(process);
    assert_eq!(progress.ended.load(Ordering::Acquire), FINISHED);
    kill(process);
    assert_lost(hog.join());
    for caller in finished {
        assert_eq!(*caller.join().unwrap(), process);
    }
    for caller in queued {
        assert_ne!(*caller.join().unwrap(), process);
    }
    lost.into_iter().for_each(|caller| assert_lost(caller.join()));
    assert_eq!(progress.begun.load(Ordering::Acquire), FINISHED + MOST_CALLS + QUEUED);
    end(runtime, 1 + MOST_CALLS as usize);
}

fn a_call_is_lost_with_its_fiber_when_its_worker_is_killed_asleep() {
    let runtime = processes(1).build().unwrap();
    let progress = Arc::new(Progress::default());
    for lost in 1..=3 {
        let process = process_of(&runtime, 0);
        let caller = caller(&runtime, &progress, |_| block_for_ever());
        await_count(&progress.begun, lost);
        while !fs::read_to_string(format!("/proc/{process}/stat")).unwrap().contains(") S ") {
            thread::yield_now();
        }
        kill(process);
        assert_lost(caller.join());
        assert_ne!(process_of(&runtime, 0), process);
    }
    progress.go.store(1, Ordering::Release);
    caller(&runtime, &progress, wait_for_go).join().unwrap();
    end(runtime, 3);
}

/// Returns a fiber that waits on worker 1 while worker 0 makes its call, and the fiber in user code
/// that keeps worker 0. The second fiber ends once the calls may end.
fn called_here_and_waits_there(
    runtime: &Runtime,
    progress: &Arc<Progress>,
) -> (JoinHandle<Box<u32>>, JoinHandle<()>) {
    let caller = caller(runtime, progress, wait_for_go);
    await_count(&progress.begun, 1);
    let (at, until) = (Arc::new(AtomicU32::new(0)), progress.clone());
    let here = at.clone();
    let hog = move || {
        here.store(1, Ordering::Release);
        while until.go.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
    };
    let hog = runtime.spawn_with(Builder::new().on(0), hog).unwrap();
    await_change(&at);
    let switches = || runtime.counters()[1].switches;
    let before = switches();
    // The fiber is interrupted, and waits again.
    caller.cancel();
    while switches() == before {
        thread::yield_now();
    }
    (caller, hog)
}

fn a_fiber_that_goes_on_elsewhere_in_its_call_is_told_of_the_end() {
    let (runtime, progress) = (processes(2).build().unwrap(), Arc::new(Progress::default()));
    let process = process_of(&runtime, 0);
    let (caller, hog) = called_here_and_waits_there(&runtime, &progress);
    progress.go.store(1, Ordering::Release);
    assert_eq!(*caller.join().unwrap(), process);
    hog.join().unwrap();
    end(runtime, 0);
}

fn a_fiber_that_goes_on_elsewhere_in_its_call_is_lost_with_it() {
    let (runtime, progress) = (processes(2).build().unwrap(), Arc::new(Progress::default()));
    let process = process_of(&runtime, 0);
    let (caller, hog) = called_here_and_waits_there(&runtime, &progress);
    kill(process);
    assert_lost(hog.join());
    assert_lost(caller.join());
    end(runtime, 2);
}

fn a_call_that_has_used_the_runtime_and_is_back_is_lost_alone() {
    let runtime = processes(1).build().unwrap();
    let at = Arc::new(AtomicU32::new(0));
    let (parks, here) = (runtime.spawn(daiko::park), at.clone());
    let fiber = parks.fiber().clone();
    let call = move || {
        fiber.unpark();
        here.store(1, Ordering::Release);
        block_for_ever()
    };
    let lost: JoinHandle<()> = runtime.spawn(|| daiko::blocking(call));
    await_change(&at);
    parks.join().unwrap();
    let (hog, process) = victim(&runtime, 0, || ());
    kill(process);
    assert_lost(hog.join());
    assert_lost(lost.join());
    end(runtime, 2);
}

fn a_call_of_a_worker_that_is_stuck_is_over_for_its_fiber_elsewhere() {
    let (runtime, progress) = (processes(2).build().unwrap(), Arc::new(Progress::default()));
    let caller = caller(&runtime, &progress, wait_for_go);
    await_count(&progress.begun, 1);
    let (hog, process) = victim(&runtime, 0, || ());
    progress.go.store(1, Ordering::Release);
    assert_eq!(*caller.join().unwrap(), process);
    assert!(!hog.is_finished());
    kill(process);
    assert_lost(hog.join());
    end(runtime, 1);
}

/// The totals of fibers that call again and again.
#[derive(Default)]
struct Totals {
    begun: AtomicU32,
    results: AtomicU32,
    lost: AtomicU32,
    over: AtomicU32,
}

/// Returns a body that lets children make calls until `over` is set. A child may be lost in a call.
fn supervise(totals: Arc<Totals>) -> impl FnOnce() + Send + 'static {
    move || {
        while totals.over.load(Ordering::Acquire) == 0 {
            let counted = totals.clone();
            let child = daiko::spawn(move || {
                for number in 0..5 {
                    let result = daiko::blocking(|| {
                        counted.begun.fetch_add(1, Ordering::Relaxed);
                        // Long enough for some calls to be killed.
                        (0..10_000).map(std::hint::black_box).fold(number, |number, _| number)
                    });
                    assert_eq!(result, number);
                    counted.results.fetch_add(1, Ordering::Relaxed);
                }
            });
            if child.join().is_err() {
                totals.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn calls_are_made_while_workers_are_killed_again_and_again() {
    const KILLS: usize = 40;
    let runtime = processes(2).build().unwrap();
    let totals = Arc::new(Totals::default());
    let load: Vec<_> = (0..8).map(|_| runtime.spawn(supervise(totals.clone()))).collect();
    for i in 0..KILLS {
        // The test cannot choose where the threads of the calls are at the kill.
        let at = Arc::new(AtomicU32::new(0));
        let here = at.clone();
        let hog = move || run_for_ever(&here);
        let hog: JoinHandle<()> = runtime.spawn_with(Builder::new().on(i % 2), hog).unwrap();
        kill(await_change(&at));
        assert_lost(hog.join());
    }
    totals.over.store(1, Ordering::Release);
    load.into_iter().for_each(|fiber| fiber.join().unwrap());
    let [begun, results, lost] =
        [&totals.begun, &totals.results, &totals.lost].map(|count| count.load(Ordering::Relaxed));
    assert!(results > 0);
    // A lost call has begun once, and has not come to its result.
    assert!((results..=results + lost).contains(&begun), "{begun} {results} {lost}");
    end(runtime, KILLS + lost as usize);
}

/// The test can choose neither the moments of the kills nor where the workers are then.
fn calls_are_made_while_workers_are_killed_at_any_moment() {
    if !can_trace("calls that block, of workers that are killed at any moment") {
        return;
    }
    const KILLS: u64 = 60;
    // SAFETY: it takes a plain integer. If the test hangs, the alarm ends it.
    unsafe { libc::alarm(120) };
    let runtime = processes(2).build().unwrap();
    let totals = Arc::new(Totals::default());
    let load: Vec<_> = (0..8).map(|_| runtime.spawn(supervise(totals.clone()))).collect();
    for i in 0..KILLS {
        let worker = i as usize % 2;
        let process = process_of(&runtime, worker);
        thread::sleep(Duration::from_micros(i * 171 % 3_000));
        kill(process);
        while process_of(&runtime, worker) == process {}
    }
    totals.over.store(1, Ordering::Release);
    let lost = load.into_iter().filter_map(|fiber| fiber.join().err()).count();
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (0, 0));
    let [begun, results, told] =
        [&totals.begun, &totals.results, &totals.lost].map(|count| count.load(Ordering::Relaxed));
    assert!(results > 0);
    // The rest are fibers of `process_of`, and children of lost fibers.
    assert!(lost + told as usize <= report.died, "{lost} {told} {}", report.died);
    // A lost call had begun once at most, and may have come to its result.
    assert!((results..=results + report.died as u32).contains(&begun), "{begun} {results}");
}

/// Runs `call` in a `blocking` call, which stores its process and then waits for ever; kills the
/// worker; and waits for the fibers of both.
fn kill_in_call(runtime: &Runtime, call: impl FnOnce(&AtomicU32) + Send + 'static) {
    let at = Arc::new(AtomicU32::new(0));
    let here = at.clone();
    let lost: JoinHandle<()> = runtime.spawn(move || daiko::blocking(|| call(&here)));
    await_sleep_of_threads(await_change(&at));
    let (hog, process) = victim(runtime, 0, || ());
    kill(process);
    let _ = (hog.join(), lost.join());
}

fn a_worker_killed_while_a_call_uses_the_runtime_takes_the_program_along() {
    let runtime = processes(1).build().unwrap();
    let parks = runtime.spawn(daiko::park);
    kill_in_call(&runtime, |at| {
        at.store(std::process::id(), Ordering::Release);
        // The fiber waits for it in vain.
        parks.join().unwrap();
    });
}

fn a_worker_killed_while_a_call_holds_a_lock_takes_the_program_along() {
    let runtime = processes(1).build().unwrap();
    kill_in_call(&runtime, |at| {
        let lock = daiko::sync::Mutex::new(());
        let _held = lock.lock().unwrap();
        at.store(std::process::id(), Ordering::Release);
        block_for_ever()
    });
}
