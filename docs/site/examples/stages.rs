//! The program of the picture on the front page: a line of fibers on two workers.
//!
//! ```text
//! stages [SECONDS]    # 60
//! ```
//!
//! `listen` sends, the three `parse` fibers take turns, `store` receives and sends an answer for
//! each eighth message, on which `listen` waits. Each works for a microsecond or two between its
//! waits.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use daiko::sync::channel::bounded;
use daiko::{Builder, Preset, Runtime};

/// Messages between two answers.
const BATCH: u64 = 8;

fn work(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        spin_loop();
    }
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(60, |text| text.parse().expect("SECONDS"));
    let end = Instant::now() + Duration::from_secs(seconds);
    // Agents that spin all the time, so that no sleep of a worker stands between two events.
    let runtime = Runtime::builder().workers(2).preset(Preset::Latency).build().unwrap();
    runtime.run(move || {
        let (lines, to_parse) = bounded(BATCH as usize);
        let (rows, to_store) = bounded(1);
        let (answers, answered) = bounded(1);
        let mut stages = Vec::new();
        stages.push(Builder::new().name("listen").on(0).spawn(move || {
            while Instant::now() < end {
                for number in 0..BATCH {
                    work(Duration::from_nanos(500));
                    lines.send(number).unwrap();
                }
                let sum: u64 = answered.recv().unwrap();
                assert_eq!(sum, (0..BATCH).sum());
            }
        }));
        for name in ["parse a", "parse b", "parse c"] {
            let (to_parse, rows) = (to_parse.clone(), rows.clone());
            stages.push(Builder::new().name(name).migratable().spawn(move || {
                for line in to_parse {
                    work(Duration::from_nanos(1500));
                    rows.send(black_box(line)).unwrap();
                }
            }));
        }
        drop((to_parse, rows));
        stages.push(Builder::new().name("store").on(1).spawn(move || {
            let mut rows = to_store.into_iter();
            while let Some(first) = rows.next() {
                let mut sum = first;
                for row in rows.by_ref().take(BATCH as usize - 1) {
                    work(Duration::from_nanos(700));
                    sum += row;
                }
                if answers.send(sum).is_err() {
                    break;
                }
            }
        }));
        for stage in stages {
            stage.unwrap().join().unwrap();
        }
    });
}
