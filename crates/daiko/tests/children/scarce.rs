//! Workers beyond the CPUs that there are stand by, and active workers host them.

use std::cell::Cell;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::child::in_child_well;
use crate::support::{PRESETS, end, skip, until};
use daiko::sync::channel::bounded;
use daiko::{Builder, Preset, Runtime, RuntimeBuilder};
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::thread;

/// A builder of so many workers for one CPU, so that all but one stand by.
fn on_one_cpu(workers: usize) -> RuntimeBuilder {
    let first = cpu::allowed().unwrap().iter().next().unwrap();
    Runtime::builder().workers(workers).cpus([first])
}

#[test]
fn fibers_start_on_active_workers_only() {
    for preset in PRESETS {
        let runtime = on_one_cpu(4).preset(preset).build().unwrap();
        assert_eq!((runtime.workers(), runtime.active_workers()), (4, 1));
        let spawn = |index: usize| match index % 2 {
            0 => runtime.spawn(daiko::yield_now),
            _ => runtime.spawn_with(Builder::new().spread(), daiko::yield_now).unwrap(),
        };
        let fibers: Vec<_> = (0..300).map(spawn).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let starts: Vec<_> = runtime.counters().iter().map(|counts| counts.starts).collect();
        assert_eq!(starts[..4], [300, 0, 0, 0], "{preset:?}");
        end(runtime);
    }
}

/// Two fibers that wake each other `rounds` times, the first on worker 0.
fn ping_pong(runtime: &Runtime, partner: Builder, rounds: usize) {
    let (to, from_ping) = bounded(1);
    let (back, from_pong) = bounded(1);
    let pong = runtime.spawn_with(partner, move || {
        for number in from_ping.iter() {
            back.send(number + 1).unwrap();
        }
    });
    let ping = runtime.spawn_with(Builder::new().on(0), move || {
        for round in 0..rounds {
            to.send(round).unwrap();
            assert_eq!(from_pong.recv(), Ok(round + 1));
        }
    });
    ping.unwrap().join().unwrap();
    pong.unwrap().join().unwrap();
}

#[test]
fn the_fibers_of_a_worker_that_stands_by_are_woken_without_the_kernel() {
    const ROUNDS: usize = 20_000;
    let runtime = on_one_cpu(2).build().unwrap();
    ping_pong(&runtime, Builder::new().on(1), ROUNDS);
    let counts = runtime.counters();
    assert!(counts[1].switches >= ROUNDS as u64 / 2, "worker 1 ran its fiber: {counts:?}");
    let woken: u64 = counts.iter().map(|counts| counts.unparks).sum();
    assert!(woken < ROUNDS as u64 / 10, "{woken} wakes by the kernel");
    end(runtime);
}

#[test]
fn a_migratable_fiber_leaves_a_worker_that_stands_by() {
    let runtime = on_one_cpu(2).build().unwrap();
    let here = || thread::id();
    let active = runtime.spawn_with(Builder::new().on(0), here).unwrap().join().unwrap();
    let fiber = runtime.spawn_with(Builder::new().migratable().on(1), move || {
        until("the fiber is on the active worker", || {
            daiko::yield_now();
            thread::id() == active
        });
    });
    fiber.unwrap().join().unwrap();
    end(runtime);
}

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn a_hosted_fiber_keeps_its_thread_locals() {
    let runtime = on_one_cpu(3).build().unwrap();
    let fibers: Vec<_> = (1..40)
        .map(|number| {
            let body = move || {
                OWN.set(number);
                for round in 0..50 {
                    // On the thread of the host, or on that of its worker.
                    if round % 10 == 9 {
                        daiko::sleep(Duration::from_micros(10));
                    } else {
                        daiko::yield_now();
                    }
                    assert_eq!(OWN.get(), number);
                }
            };
            runtime.spawn_with(Builder::new().on(number % 3), body).unwrap()
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    end(runtime);
}

#[test]
fn a_borrowed_fiber_stays_on_the_thread_of_its_worker() {
    let runtime = on_one_cpu(2).build().unwrap();
    // SAFETY: the fiber keeps no reference to a thread-local over a suspension.
    let borrowed = || unsafe { Builder::new().on(1).borrowed() };
    let thread_of = || runtime.spawn_with(borrowed(), thread::id).unwrap().join().unwrap();
    let own = thread_of();
    // A hosted fiber on the same worker, so that it has a host from time to time.
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let hosted = runtime.spawn_with(Builder::new().on(1), move || {
        while !stop.load(Ordering::Relaxed) {
            daiko::park();
        }
    });
    let hosted = hosted.unwrap();
    let wakes = hosted.fiber().clone();
    let waker = runtime.spawn_with(Builder::new().on(0), move || {
        for _ in 0..2_000 {
            wakes.unpark();
            daiko::yield_now();
        }
    });
    for _ in 0..100 {
        assert_eq!(thread_of(), own);
        let (wakes, fiber_wakes) = bounded(0);
        // SAFETY: as above.
        let borrowed = runtime.spawn_with(borrowed(), move || {
            for () in fiber_wakes.iter() {
                assert_eq!(thread::id(), own);
            }
        });
        let waker = runtime.spawn_with(Builder::new().on(0), move || {
            (0..5).for_each(|_| wakes.send(()).unwrap());
        });
        waker.unwrap().join().unwrap();
        borrowed.unwrap().join().unwrap();
    }
    waker.unwrap().join().unwrap();
    done.store(true, Ordering::Relaxed);
    hosted.fiber().unpark();
    hosted.join().unwrap();
    end(runtime);
}

/// The host never comes back to its guest, which the monitor gives back to its thread.
#[test]
fn a_guest_does_not_wait_for_a_host_that_is_busy() {
    let runtime = on_one_cpu(2).build().unwrap();
    let (ran, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for round in 0..5 {
        let parks = runtime.counters()[1].parks;
        let (runs, tells) = (ran.clone(), told.clone());
        let guest = runtime.spawn_with(Builder::new().on(1), move || {
            tells.fetch_add(1, Ordering::Release);
            daiko::park();
            runs.store(true, Ordering::Release);
        });
        let guest = guest.unwrap();
        until("the guest waits", || told.load(Ordering::Acquire) > round);
        // Its thread sleeps by now, or is about to: the host or the kernel wakes it.
        until("its worker parks", || runtime.counters()[1].parks > parks);
        let (runs, wakes) = (ran.clone(), guest.fiber().clone());
        let host = runtime.spawn_with(Builder::new().on(0), move || {
            wakes.unpark();
            until("the guest runs beside a busy host", || runs.load(Ordering::Acquire));
        });
        host.unwrap().join().unwrap();
        guest.join().unwrap();
        ran.store(false, Ordering::Release);
    }
    end(runtime);
}

#[test]
fn a_host_that_is_never_idle_runs_its_guests_in_turn() {
    let runtime = on_one_cpu(2).build().unwrap();
    let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counts, stops) = (turns.clone(), stop.clone());
    let guest = runtime.spawn_with(Builder::new().on(1), move || {
        while !stops.load(Ordering::Relaxed) {
            daiko::park();
            counts.fetch_add(1, Ordering::Relaxed);
        }
    });
    let guest = guest.unwrap();
    let wakes = guest.fiber().clone();
    let busy = runtime.spawn_with(Builder::new().on(0), move || {
        until("1,000 turns of the guest", || {
            wakes.unpark();
            daiko::yield_now();
            turns.load(Ordering::Relaxed) >= 1000
        });
        stop.store(true, Ordering::Relaxed);
        wakes.unpark();
    });
    busy.unwrap().join().unwrap();
    guest.join().unwrap();
    end(runtime);
}

#[test]
fn a_hosted_fiber_waits_for_sockets_and_times() {
    let runtime = on_one_cpu(2).build().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (to, numbers) = bounded::<u8>(1);
    let (_silent, never) = bounded::<()>(1);
    let guest = runtime.spawn_with(Builder::new().on(1), move || {
        // The first use of a socket is on the thread of the host.
        assert_eq!(numbers.recv(), Ok(0));
        let mut stream = daiko::net::TcpStream::connect(address).unwrap();
        for number in numbers.iter() {
            stream.write_all(&[number]).unwrap();
            let mut echo = [0];
            stream.read_exact(&mut echo).unwrap();
            assert_eq!(echo, [number]);
            assert!(never.recv_timeout(Duration::from_micros(number.into())).is_err());
        }
    });
    let peer = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() == 1 {
            stream.write_all(&byte).unwrap();
        }
    });
    let host = runtime.spawn_with(Builder::new().on(0), move || {
        for number in 0..100 {
            to.send(number).unwrap();
            daiko::sleep(Duration::from_micros(300));
        }
    });
    host.unwrap().join().unwrap();
    guest.unwrap().join().unwrap();
    peer.join().unwrap();
    end(runtime);
}

/// Fibers of all workers, most of which stand by, wake each other, sleep, block, and are woken by
/// threads.
#[test]
fn no_wake_is_lost_whatever_has_the_worker() {
    const FIBERS: usize = 24;
    const ROUNDS: u64 = 400;
    for preset in PRESETS {
        let runtime = on_one_cpu(4).preset(preset).build().unwrap();
        let sum = Arc::new(AtomicU64::new(0));
        let links: Vec<_> = (0..FIBERS).map(|_| bounded::<u64>(2)).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        let fibers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(index, receiver)| {
                let (next, sum) = (senders[(index + 1) % FIBERS].clone(), sum.clone());
                let body = move || {
                    for round in 0..ROUNDS {
                        let number = receiver.recv().unwrap();
                        sum.fetch_add(number, Ordering::Relaxed);
                        match (index as u64 * 7 + round) % 97 {
                            0 => daiko::sleep(Duration::from_micros(50)),
                            1 => daiko::blocking(std::thread::yield_now),
                            2..20 => daiko::yield_now(),
                            _ => {}
                        }
                        // The last round has no receiver any more.
                        let _ = next.send(number);
                    }
                };
                let builder = Builder::new();
                let builder = if index % 5 == 0 { builder.migratable() } else { builder };
                runtime.spawn_with(builder.on(index % 4), body).unwrap()
            })
            .collect();
        // From threads as well: one token for every second fiber.
        let from_threads =
            senders.into_iter().step_by(2).map(|sender| // All fibers may have ended before.
            std::thread::spawn(move || sender.send(1).ok()));
        from_threads.for_each(|thread| _ = thread.join().unwrap());
        // A fiber passes on what it takes, so its neighbour gets as many.
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert_eq!(sum.load(Ordering::Relaxed), FIBERS as u64 * ROUNDS);
        end(runtime);
    }
}

#[test]
fn a_shutdown_unwinds_hosted_fibers() {
    let runtime = on_one_cpu(3).build().unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let fibers: Vec<_> = (0..9)
        .map(|index| {
            let started = started.clone();
            let body = move || {
                started.fetch_add(1, Ordering::Release);
                daiko::park();
            };
            runtime.spawn_with(Builder::new().on(index % 3), body).unwrap()
        })
        .collect();
    until("all have started", || started.load(Ordering::Acquire) == 9);
    // The guests of worker 0 at the time of the shutdown.
    let wakes: Vec<_> = fibers.iter().map(|fiber| fiber.fiber().clone()).collect();
    let hosting = runtime.spawn_with(Builder::new().on(0), move || {
        wakes.iter().step_by(2).for_each(daiko::Fiber::unpark);
    });
    hosting.unwrap().join().unwrap();
    let report = runtime.shutdown();
    assert_eq!(report.leaked, 0);
}

/// The first CPU that is allowed, and all that are.
fn masks() -> (CpuSet, CpuSet) {
    let all = cpu::allowed().unwrap();
    (all.iter().take(1).collect(), all)
}

fn confine(set: &CpuSet) {
    for thread in thread::all().unwrap() {
        // A thread that has just ended is not confined.
        let _ = cpu::bind(thread, set);
    }
}

#[test]
fn active_workers_follow_the_mask_while_fibers_run() {
    in_child_well("scarce::active_workers_follow_the_mask_while_fibers_run", || {
        let (one, all) = masks();
        if all.len() < 2 {
            return skip("one CPU is allowed");
        }
        while_fibers_run(|runtime| {
            confine(&one);
            until("one is active", || runtime.active_workers() == 1);
            ping_pong(runtime, Builder::new().on(1), 100);
            confine(&all);
            until("both are active again", || runtime.active_workers() == 2);
        });
    });
}

/// Calls `round` some times, beside fibers that run on both workers of a runtime.
pub(super) fn while_fibers_run(round: impl Fn(&Runtime)) {
    let runtime = Runtime::builder().workers(2).bind(false).preset(Preset::Balanced).build();
    let runtime = runtime.unwrap();
    until("both are active", || runtime.active_workers() == 2);
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..8)
        .map(|index| {
            let stop = stop.clone();
            let body = move || {
                let mut turns = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    daiko::yield_now();
                    turns += 1;
                }
                turns
            };
            runtime.spawn_with(Builder::new().on(index % 2), body).unwrap()
        })
        .collect();
    for _ in 0..5 {
        round(&runtime);
        ping_pong(&runtime, Builder::new().on(1), 100);
    }
    stop.store(true, Ordering::Relaxed);
    load.into_iter().for_each(|fiber| assert!(fiber.join().unwrap() > 0));
    end(runtime);
}

#[test]
fn power_runs_fibers_on_the_workers_that_they_need() {
    let runtime = Runtime::builder().workers(2).preset(Preset::Power).build().unwrap();
    assert_eq!(runtime.active_workers(), 1);
    if cpu::default_workers() < 2 {
        skip("one CPU is allowed");
        return end(runtime);
    }
    burst_for_two(&runtime);
    let ticks = runtime.spawn(|| {
        while !daiko::cancel::is_cancelled() {
            daiko::sleep(Duration::from_millis(1));
        }
    });
    until("little work has one", || runtime.active_workers() == 1);
    ticks.cancel();
    let _ = ticks.join();
    burst_for_two(&runtime);
    until("a runtime without work has one", || runtime.active_workers() == 1);
    end(runtime);
}

/// Runs fibers that any worker may take, until two workers are active.
fn burst_for_two(runtime: &Runtime) {
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            let body = move || {
                while !stop.load(Ordering::Relaxed) {
                    daiko::yield_now();
                }
            };
            runtime.spawn_with(Builder::new().migratable(), body).unwrap()
        })
        .collect();
    until("work for two has two workers", || runtime.active_workers() == 2);
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|fiber| fiber.join().unwrap());
}
