//! Work that goes on while a worker's process is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use daiko::sync::{Mutex, channel};
use daiko::{Builder, Runtime};

use super::processes;
use crate::End;

super::cases! {
    a_worker_that_is_stopped_stalls_its_own_fiber_alone End::Well,
    work_of_a_stopped_worker_runs_elsewhere End::Well,
}

fn signal(process: u32, signal: i32) {
    // SAFETY: it takes plain integers.
    assert_eq!(unsafe { libc::kill(process as i32, signal) }, 0);
}

/// Stops worker 1 in the user code of a fiber, runs `meanwhile`, and lets it continue.
fn while_stopped(runtime: &Runtime, meanwhile: impl FnOnce()) {
    let (at, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (here, ends) = (at.clone(), over.clone());
    let stalled = move || {
        here.store(std::process::id(), Ordering::Release);
        while ends.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
        std::process::id()
    };
    let stalled = runtime.spawn_with(Builder::new().on(1), stalled).unwrap();
    let process = loop {
        match at.load(Ordering::Acquire) {
            0 => std::thread::yield_now(),
            process => break process,
        }
    };
    signal(process, libc::SIGSTOP);
    let path = format!("/proc/{process}/stat");
    let stopped = |stat: String| stat.contains(") t ") || stat.contains(") T ");
    while !stopped(std::fs::read_to_string(&path).unwrap()) {
        std::thread::yield_now();
    }
    meanwhile();
    over.store(1, Ordering::Release);
    assert!(!stalled.is_finished());
    signal(process, libc::SIGCONT);
    assert_eq!(stalled.join().unwrap(), process);
}

fn a_worker_that_is_stopped_stalls_its_own_fiber_alone() {
    let runtime = processes(2).build().unwrap();
    while_stopped(&runtime, || {
        let sum = Arc::new(Mutex::new(0));
        let (sender, receiver) = channel::bounded(2);
        let adders: Vec<_> = (0..100)
            .map(|number| {
                let (sum, sender) = (sum.clone(), sender.clone());
                runtime.spawn(move || {
                    *sum.lock().unwrap() += number;
                    daiko::time::sleep(Duration::from_micros(number));
                    sender.send(number).unwrap();
                })
            })
            .collect();
        drop(sender);
        assert_eq!(runtime.run(move || receiver.iter().sum::<u64>()), 4950);
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert_eq!(*sum.lock().unwrap(), 4950);
    });
    let report = runtime.shutdown();
    assert_eq!((report.leaked, report.died), (0, 0));
}

fn work_of_a_stopped_worker_runs_elsewhere() {
    let runtime = processes(2).build().unwrap();
    let waits: Vec<_> = (0..20_u64)
        .map(|number| {
            let waits = move || {
                if number % 2 == 0 {
                    daiko::park();
                } else {
                    daiko::time::sleep(Duration::from_millis(20 + number));
                }
                number
            };
            runtime.spawn_with(Builder::new().on(1), waits).unwrap()
        })
        .collect();
    let mut all = Vec::new();
    while_stopped(&runtime, || {
        waits.iter().for_each(|fiber| fiber.fiber().unpark());
        all = waits.into_iter().map(|fiber| fiber.join().unwrap()).collect();
    });
    assert!(all.into_iter().eq(0..20));
    runtime.shutdown();
}
