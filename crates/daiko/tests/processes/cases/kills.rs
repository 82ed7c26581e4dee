//! Worker processes are killed at arbitrary moments, while fibers spawn, lock, send and allocate.
//!
//! `DAIKO_SOAK_KILLS` sets the number of kills; the default is 60.

use std::fs;
use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use daiko::process::SharedHeap;
use daiko::sync::{Mutex, RwLock, Semaphore, channel};
use daiko::{Builder, JoinError, JoinHandle, Runtime};

use super::{can_trace, processes};
use crate::End;

super::cases! {
    a_worker_killed_under_load_loses_only_the_fiber_that_it_ran End::Well,
}

const WORKERS: usize = 2;
/// The number of fibers that are under load at a time.
const FIBERS: usize = 12;
/// The most bytes that a lost fiber may have owned: the allocations of one round, blocks and
/// handles included.
const OWNED: usize = 96 << 10;
/// A number that exceeds the fibers and the blocks of lost fibers at a time.
const STACKS: usize = 1000;

/// Objects that the fibers under load share.
struct Shared {
    over: AtomicBool,
    rounds: AtomicU64,
    /// The number of losses that a fiber learned of by a join of its child.
    told: AtomicUsize,
    sum: Mutex<u64>,
    table: RwLock<[u64; 16]>,
    doors: Semaphore,
}

/// Runs one round: each object that it takes is given back, and each allocation is freed.
fn round(shared: &Arc<Shared>, seed: u64) {
    // Room for all messages: a lost receiver is not dropped, so its sender would wait for ever,
    // with a permit.
    let (sender, receiver) = channel::bounded(4);
    let passes = shared.clone();
    let child = daiko::spawn(move || {
        let _permit = passes.doors.acquire();
        for number in 0..4_u64 {
            *passes.sum.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            let bytes = vec![7_u8; 1 << ((seed + number) % 14)];
            if sender.send(Box::new(bytes)).is_err() {
                break;
            }
        }
    });
    let mut received = 0;
    loop {
        match receiver.recv_timeout(Duration::from_millis(1)) {
            Ok(bytes) => {
                assert!(bytes.iter().all(|byte| *byte == 7));
                received += 1;
            }
            // A lost child leaves its end of the channel open.
            Err(channel::RecvTimeoutError::Timeout) if !child.is_finished() => {}
            Err(_) => break,
        }
    }
    // The child may have sent all and ended between a timeout and the look at it.
    while receiver.try_recv().is_ok() {
        received += 1;
    }
    match child.join() {
        Ok(()) => assert_eq!(received, 4),
        Err(JoinError::WorkerDied) => _ = shared.told.fetch_add(1, Ordering::Relaxed),
        Err(other) => panic!("{other}"),
    }
    let slot = (seed % 16) as usize;
    shared.table.write().unwrap_or_else(PoisonError::into_inner)[slot] = seed;
    let seen = shared.table.read().unwrap_or_else(PoisonError::into_inner)[slot];
    std::hint::black_box(seen);
    shared.rounds.fetch_add(1, Ordering::Relaxed);
}

fn spawn(runtime: &Runtime, shared: &Arc<Shared>, seed: usize) -> JoinHandle<()> {
    let shared = shared.clone();
    runtime.spawn(move || {
        let mut seed = seed as u64;
        while !shared.over.load(Ordering::Acquire) {
            round(&shared, seed);
            seed += 1;
        }
    })
}

/// Lists the children of the zygote: workers, their successors, and killed processes that are not
/// reaped yet.
fn children(zygote: u32) -> Vec<i32> {
    let all = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children")).unwrap();
    all.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Returns the time until the worker runs a fiber, in the process that was killed or in its
/// successor.
fn answers(runtime: &Runtime, worker: usize) -> Duration {
    let since = Instant::now();
    let asked = || runtime.spawn_with(Builder::new().on(worker), || ()).unwrap();
    while asked().join().is_err() {}
    since.elapsed()
}

fn a_worker_killed_under_load_loses_only_the_fiber_that_it_ran() {
    if !can_trace("kills under load") {
        return;
    }
    let kills: usize = std::env::var("DAIKO_SOAK_KILLS").map_or(60, |kills| kills.parse().unwrap());
    // SAFETY: it takes a plain integer. If the test hangs, the alarm ends it.
    unsafe { libc::alarm(60 + kills as u32) };
    let runtime = processes(WORKERS).build().unwrap();
    let zygote = runtime.run(parent_id);
    let shared = Arc::new(Shared {
        over: AtomicBool::new(false),
        rounds: AtomicU64::new(0),
        told: AtomicUsize::new(0),
        sum: Mutex::new(0),
        table: RwLock::new([0; 16]),
        doors: Semaphore::new(3),
    });
    // Makes all stacks that the test needs at a time, so that none is made while bytes are counted.
    let crowd: Vec<_> = (0..STACKS).map(|_| runtime.spawn(daiko::park)).collect();
    crowd.iter().for_each(|fiber| fiber.fiber().unpark());
    crowd.into_iter().for_each(|fiber| fiber.join().unwrap());
    let mut fibers: Vec<_> = (0..FIBERS).map(|seed| spawn(&runtime, &shared, seed)).collect();
    let before = SharedHeap::stats().unwrap();
    let (mut lost, mut recoveries, mut random) = (0, Vec::new(), 1_u64);
    for _ in 0..kills {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((random >> 33) % 4_000));
        let victims = children(zygote);
        let victim = victims[(random >> 45) as usize % victims.len()];
        // SAFETY: it takes plain integers. The id of a process that has ended meanwhile is not
        // reused, as the zygote has not reaped it.
        unsafe { libc::kill(victim, libc::SIGKILL) };
        recoveries.extend((0..WORKERS).map(|worker| answers(&runtime, worker)).max());
        for (seed, fiber) in fibers.iter_mut().enumerate().filter(|(_, fiber)| fiber.is_finished())
        {
            let ended = std::mem::replace(fiber, spawn(&runtime, &shared, seed)).join();
            assert!(matches!(ended, Err(JoinError::WorkerDied)), "{ended:?}");
            lost += 1;
        }
    }
    shared.over.store(true, Ordering::Release);
    for ended in fibers.into_iter().map(JoinHandle::join) {
        match ended {
            Ok(()) => {}
            Err(JoinError::WorkerDied) => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let (told, after) = (shared.told.load(Ordering::Relaxed), SharedHeap::stats().unwrap());
    let report = runtime.shutdown();
    // The rest are children of parents that were lost before, and fibers of `answers`.
    assert!(lost + told <= report.died && report.died <= kills, "{lost} + {told}: {report:?}");
    assert_eq!(report.leaked, 0);
    assert_eq!(after.in_flight, 0);
    let leaked = after.in_use.saturating_sub(before.in_use);
    assert!(
        leaked <= (report.died + FIBERS) * OWNED,
        "{} lost, {leaked} bytes leaked",
        report.died
    );
    recoveries.sort();
    println!(
        "measured: {kills} kills, {} fibers lost, {lost} told to their joiners outside, {told} inside; {leaked} bytes leaked; {} \
         rounds; recovery p50 {:?}, p99 {:?}, max {:?}",
        report.died,
        shared.rounds.load(Ordering::Relaxed),
        recoveries[kills / 2],
        recoveries[kills * 99 / 100],
        recoveries[kills - 1],
    );
}
