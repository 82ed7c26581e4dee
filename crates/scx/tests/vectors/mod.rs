//! The choices that all implementations of the policies must make:
//! `crates/core/src/place/follow/vectors.txt`.

const VECTORS: &str = include_str!("../../../core/src/place/follow/vectors.txt");

/// The state of a task, a policy, a wake-up and the decision (`struct trial` in `policy.h`).
pub(crate) struct Trial {
    bytes: [u8; 48],
}

impl Trial {
    fn new(policy: u32, bound: u32) -> Self {
        let mut trial = Trial { bytes: [0; 48] };
        trial.put(0, &[0xff; 4]);
        trial.put(12, &policy.to_ne_bytes());
        trial.put(16, &bound.to_ne_bytes());
        trial
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn wake(&mut self, waker: u16, previous: u16, idle: u128) {
        self.put(6, &waker.to_ne_bytes());
        self.put(8, &previous.to_ne_bytes());
        self.put(24, &(idle as u64).to_ne_bytes());
        self.put(32, &((idle >> 64) as u64).to_ne_bytes());
    }

    fn chosen(&self) -> u16 {
        u16::from_ne_bytes([self.bytes[40], self.bytes[41]])
    }

    fn is_swap(&self) -> bool {
        self.bytes[43] != 0
    }
}

/// Calls `decide` for all wake-ups and checks the choices.
pub(crate) fn check(mut decide: impl FnMut(&mut [u8; 48])) {
    let (mut tasks, mut wakes) = (0, 0);
    let mut trial = Trial::new(0, 0);
    for line in VECTORS.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [] | ["#", ..] => {}
            ["task", _, "existing"] => (trial, tasks) = (Trial::new(0, 4), tasks + 1),
            ["task", _, "follow", bound] => {
                (trial, tasks) = (Trial::new(1, bound.parse().unwrap()), tasks + 1);
            }
            [waker, previous, idle, chosen, ref swap @ ..] => {
                let [waker, previous, chosen] =
                    [waker, previous, chosen].map(|cpu| cpu.parse().unwrap());
                trial.wake(waker, previous, u128::from_str_radix(idle, 16).unwrap());
                decide(&mut trial.bytes);
                assert_eq!(
                    (trial.chosen(), trial.is_swap()),
                    (chosen, *swap == ["swap"]),
                    "{line}"
                );
                wakes += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert!(tasks >= 10 && wakes >= 40, "{tasks} tasks, {wakes} wake-ups");
}
