//! Runs one operation of the hot path COUNT times, so that callgrind can count its instructions.

use std::hint::black_box;
use std::sync::Arc;

use daiko::sync::{Mutex, channel};

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(operation), Some(count)) = (args.next(), args.next().and_then(|n| n.parse().ok()))
    else {
        eprintln!("usage: instructions OPERATION COUNT");
        std::process::exit(2);
    };
    let runtime = daiko::Runtime::builder().workers(1).build().unwrap();
    let known = runtime.run(move || perform(&operation, count));
    if !known {
        eprintln!(
            "instructions: no such operation: yield, yield-migratable, park, mutex, spawn, recv"
        );
        std::process::exit(2);
    }
}

/// Performs `operation` `count` times; returns false if it is unknown.
fn perform(operation: &str, count: u32) -> bool {
    match operation {
        "yield" => take_turns(count, false),
        "yield-migratable" => take_turns(count, true),
        "park" => park_in_turn(count),
        "mutex" => lock_and_unlock(count),
        "spawn" => (0..count).for_each(|n| {
            let _ = black_box(daiko::spawn(move || n).join());
        }),
        "recv" => receive(count),
        _ => return false,
    }
    true
}

/// Makes two fibers yield to each other; a switch is half of a turn.
fn take_turns(count: u32, migratable: bool) {
    let fibers: Vec<_> = (0..2)
        .map(|_| {
            let builder = daiko::Builder::new();
            let builder = if migratable { builder.migratable() } else { builder };
            builder.spawn(move || (0..count / 2).for_each(|_| daiko::yield_now())).unwrap()
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// Makes two fibers unpark each other and park.
fn park_in_turn(count: u32) {
    let first = daiko::current();
    let second = daiko::spawn(move || {
        for _ in 0..count / 2 {
            daiko::park();
            first.unpark();
        }
    });
    for _ in 0..count / 2 {
        second.fiber().unpark();
        daiko::park();
    }
    second.join().unwrap();
}

fn lock_and_unlock(count: u32) {
    let mutex = Mutex::new(0u32);
    (0..count).for_each(|_| *mutex.lock().unwrap() += 1);
    black_box(&mutex);
}

/// Receives messages of a neighbour; the receiver has to wait for each.
fn receive(count: u32) {
    let (sender, receiver) = channel::bounded::<u32>(1);
    let sender = Arc::new(sender);
    let neighbour = daiko::spawn(move || (0..count).for_each(|n| sender.send(n).unwrap()));
    (0..count).for_each(|_| {
        black_box(receiver.recv().unwrap());
    });
    neighbour.join().unwrap();
}
