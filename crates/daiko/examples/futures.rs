//! Measures futures in fibers: a `block_on` of a ready future, and the hop of a message between two
//! fibers of one worker, by `recv` and by a receive that is awaited.
//!
//! It prints the median of several rounds in nanoseconds. The rounds take turns, so that a change
//! of the machine's speed meets all of them.
//!
//!     cargo run --release --package daiko --example futures

use std::hint::black_box;
use std::time::Instant;

use daiko::sync::channel::{self, Receiver};
use daiko::{Builder, Runtime, block_on};

const ROUNDS: usize = 11;
const TIMES: u32 = 200_000;

/// A measure, and the nanoseconds of one operation in each of its rounds.
type Measured = (&'static str, fn() -> f64, Vec<f64>);

fn ready() -> f64 {
    let start = Instant::now();
    for i in 0..TIMES {
        black_box(block_on(std::future::ready(black_box(i))));
    }
    start.elapsed().as_nanos() as f64 / f64::from(TIMES)
}

/// Returns the nanoseconds of a hop: one message of a ping-pong.
fn hop(receive: fn(&Receiver<u32>) -> u32) -> f64 {
    let (ping, pinged) = channel::bounded(1);
    let (pong, ponged) = channel::bounded(1);
    let echo = move || (0..TIMES).for_each(|_| pong.send(receive(&pinged)).unwrap());
    let other = Builder::new().on(0).spawn(echo).unwrap();
    let start = Instant::now();
    for i in 0..TIMES {
        ping.send(i).unwrap();
        assert_eq!(receive(&ponged), i);
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(2 * TIMES);
    other.join().unwrap();
    ns
}

fn own_hop() -> f64 {
    hop(|receiver| receiver.recv().unwrap())
}

fn awaited_hop() -> f64 {
    hop(|receiver| block_on(receiver.recv_async()).unwrap())
}

/// Measures a hop with one `block_on` around all receives of a fiber.
fn awaited_in_one_block() -> f64 {
    let (ping, pinged) = channel::bounded(1);
    let (pong, ponged) = channel::bounded(1);
    let echo = async move {
        for _ in 0..TIMES {
            pong.send(pinged.recv_async().await.unwrap()).unwrap();
        }
    };
    let other = Builder::new().on(0).spawn(move || block_on(echo)).unwrap();
    let start = Instant::now();
    block_on(async {
        for i in 0..TIMES {
            ping.send(i).unwrap();
            assert_eq!(ponged.recv_async().await, Ok(i));
        }
    });
    let ns = start.elapsed().as_nanos() as f64 / f64::from(2 * TIMES);
    other.join().unwrap();
    ns
}

fn main() {
    let mut measures: [Measured; 4] = [
        ("block_on of a ready future", ready, Vec::new()),
        ("hop, recv", own_hop, Vec::new()),
        ("hop, a block_on for each receive", awaited_hop, Vec::new()),
        ("hop, awaited in one block_on", awaited_in_one_block, Vec::new()),
    ];
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let measured = runtime.spawn_with(Builder::new().on(0), move || {
        for _ in 0..ROUNDS {
            for (_, measure, rounds) in &mut measures {
                rounds.push(measure());
            }
        }
        measures
    });
    for (name, _, mut rounds) in measured.unwrap().join().unwrap() {
        rounds.sort_by(f64::total_cmp);
        let (least, most) = (rounds[0], rounds[ROUNDS - 1]);
        println!("{name}: {:.1} ns ({least:.1} to {most:.1})", rounds[ROUNDS / 2]);
    }
}
