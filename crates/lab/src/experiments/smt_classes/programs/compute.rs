//! Programs that are not memory-bound.

use std::arch::asm;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{io, thread};

use super::field::{Endless, Reports, repeat};
use crate::kit::SplitMix64;

/// P4's task without memory accesses: divisions, each of the previous result.
pub(super) fn idiv(reports: &mut Reports<'_>) -> Endless {
    reports.prepared();
    let mut value = i64::MAX;
    loop {
        // SAFETY: the divisor is neither 0 nor -1, and the dividend is one word with its sign.
        unsafe {
            asm!("cqo", "idiv {divisor}", "or rax, {large}", divisor = in(reg) 3_i64, large = in(reg) 1_i64 << 62,
                inout("rax") value, out("rdx") _, options(nomem, nostack));
        }
    }
}

/// P4's product of matrices, of a size that fits into the second-level cache.
pub(super) fn matrix_product(reports: &mut Reports<'_>) -> Endless {
    const SIDE: usize = 160;
    let a = vec![1.5_f64; SIDE * SIDE];
    let b = vec![0.5_f64; SIDE * SIDE];
    let mut c = vec![0.0_f64; SIDE * SIDE];
    repeat(reports, || {
        for (row, out) in a.chunks(SIDE).zip(c.chunks_mut(SIDE)) {
            for (column, out) in out.iter_mut().enumerate() {
                let column = b[column..].iter().step_by(SIDE);
                *out = row.iter().zip(column).map(|(a, b)| a * b).sum();
            }
        }
        black_box(&mut c);
    })
}

pub(super) fn mandelbrot(reports: &mut Reports<'_>) -> Endless {
    let mut point = 0_u32;
    repeat(reports, || {
        point = point.wrapping_add(1);
        let (x, y) =
            (f64::from(point % 1000) / 400.0 - 2.0, f64::from(point / 1000 % 1000) / 1000.0);
        let (mut a, mut b, mut steps) = (0.0, 0.0, 0);
        while a * a + b * b < 4.0 && steps < 1000 {
            (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
            steps += 1;
        }
        black_box(steps);
    })
}

pub(super) fn collatz(reports: &mut Reports<'_>) -> Endless {
    let mut start = 1_u64;
    repeat(reports, || {
        start = start % (1 << 30) + 1;
        let (mut n, mut steps) = (start, 0);
        while n > 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        black_box(steps);
    })
}

pub(super) fn sort(reports: &mut Reports<'_>) -> Endless {
    let mut random = SplitMix64(1);
    let mut numbers = vec![0_u32; 16 << 10];
    repeat(reports, || {
        numbers.iter_mut().for_each(|number| *number = random.next() as u32);
        numbers.sort_unstable();
        black_box(&mut numbers);
    })
}

pub(super) fn histogram(reports: &mut Reports<'_>) -> Endless {
    let mut random = SplitMix64(1);
    let text: Vec<u8> = (0..16 << 10).map(|_| random.next() as u8).collect();
    let mut counts = [0_u32; 256];
    repeat(reports, || {
        text.iter().for_each(|byte| {
            counts[usize::from(*byte)] = counts[usize::from(*byte)].wrapping_add(1)
        });
        black_box(&mut counts);
    })
}

/// CRC-32, byte by byte.
pub(super) fn crc_table(reports: &mut Reports<'_>) -> Endless {
    let entry = |byte: u32| (0..8).fold(byte, |crc, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1)));
    let table: Vec<u32> = (0..256).map(entry).collect();
    let text = vec![0x5A_u8; 8 << 10];
    repeat(reports, || {
        let step = |crc: u32, byte: &u8| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)];
        black_box(text.iter().fold(u32::MAX, step));
    })
}

pub(super) fn mix(reports: &mut Reports<'_>) -> Endless {
    let mut random = SplitMix64(1);
    repeat(reports, || {
        black_box(random.next());
    })
}

/// Increments a counter that no other thread uses: the exchange is with the first-level cache.
pub(super) fn atomic_counter(reports: &mut Reports<'_>) -> Endless {
    let counter = AtomicU64::new(0);
    repeat(reports, || {
        black_box(&counter).fetch_add(1, Relaxed);
    })
}

/// Waits for a change of a word that never changes.
#[inline(always)]
pub(super) fn spin(reports: &mut Reports<'_>, between: impl Fn()) -> Endless {
    let word = AtomicU64::new(0);
    reports.prepared();
    while black_box(&word).load(Relaxed) == 0 {
        between();
    }
    Err(io::Error::other("no thread writes this word"))
}

pub(super) fn sleep(reports: &mut Reports<'_>) -> Endless {
    reports.prepared();
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// The sieve of Eratosthenes on numbers that fit into the second-level cache.
pub(super) fn sieve(reports: &mut Reports<'_>) -> Endless {
    const NUMBERS: usize = 200_000;
    let mut is_composite = vec![false; NUMBERS];
    repeat(reports, || {
        is_composite.fill(false);
        for number in (2..NUMBERS).take_while(|number| number * number < NUMBERS) {
            if !is_composite[number] {
                (number * number..NUMBERS).step_by(number).for_each(|at| is_composite[at] = true);
            }
        }
        black_box(&mut is_composite);
    })
}

/// A simulation of bodies that attract each other.
pub(super) fn bodies(reports: &mut Reports<'_>) -> Endless {
    let place = |n: u32| [f64::from(n), f64::from(n * n), 1.0 / f64::from(n + 1)];
    let mut places: Vec<[f64; 3]> = (0..64).map(place).collect();
    repeat(reports, || {
        for one in 0..places.len() {
            let force = (0..places.len()).fold([0.0; 3], |force: [f64; 3], other| {
                let way: [f64; 3] =
                    std::array::from_fn(|axis| places[other][axis] - places[one][axis]);
                let square = way.iter().map(|part| part * part).sum::<f64>() + 0.01;
                let pull = 1.0 / (square * square.sqrt());
                std::array::from_fn(|axis| force[axis] + way[axis] * pull)
            });
            (0..3).for_each(|axis| places[one][axis] += 1e-6 * force[axis]);
        }
        black_box(&mut places);
    })
}

/// Edit distance of words, by the table of Wagner and Fischer.
pub(super) fn edit_distance(reports: &mut Reports<'_>) -> Endless {
    let mut random = SplitMix64(1);
    let mut word = || (0..500).map(|_| (random.next() % 4) as u8).collect::<Vec<_>>();
    let (one, other) = (word(), word());
    repeat(reports, || {
        let mut row: Vec<u32> = (0..=other.len() as u32).collect();
        for (at, letter) in one.iter().enumerate() {
            let mut corner = at as u32;
            row[0] = corner + 1;
            for (at, second) in other.iter().enumerate() {
                let change = corner + u32::from(letter != second);
                corner = row[at + 1];
                row[at + 1] = change.min(corner + 1).min(row[at] + 1);
            }
        }
        black_box(row);
    })
}
