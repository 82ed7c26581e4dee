//! Scoped threads share a mutex, a condition variable and channels. Argument: rounds.

use std::sync::{Condvar, Mutex, mpsc};
use std::{env, thread};

fn main() {
    let (turn, changed) = (Mutex::new(0_usize), Condvar::new());
    let (sender, receiver) = mpsc::sync_channel(4);
    let rounds: usize = env::args().nth(1).expect("rounds").parse().expect("a number");
    for _ in 0..rounds {
        thread::scope(|scope| {
            for own in 0..16 {
                let (turn, changed, sender) = (&turn, &changed, sender.clone());
                scope.spawn(move || {
                    for number in 0..50 {
                        let turn = turn.lock().unwrap();
                        let mut turn = changed.wait_while(turn, |turn| *turn % 16 != own).unwrap();
                        *turn += 1;
                        drop(turn);
                        changed.notify_all();
                        sender.send(number).unwrap();
                    }
                });
            }
            let sum: usize = receiver.iter().take(16 * 50).sum();
            assert_eq!(sum, 16 * 49 * 50 / 2);
        });
    }
    assert_eq!(*turn.lock().unwrap(), rounds * 16 * 50);
}
