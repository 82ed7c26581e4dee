//! Programs that read and write plain memory: near or far, in order or at random.

use std::hint::black_box;

use super::field::{Endless, Field, LARGE, LINE, Reports, on, repeat};
use crate::kit::SplitMix64;

/// Words of a cache line.
const STEP: usize = LINE / 8;

/// Links the first words of all lines to one cycle in random order, by Sattolo's algorithm: each
/// holds the index of the next.
fn link(words: &mut [u64]) {
    let mut random = SplitMix64(7);
    let lines = words.len() / STEP;
    for line in 0..lines {
        words[line * STEP] = (line * STEP) as u64;
    }
    for line in (1..lines).rev() {
        let other = random.below(line as u64) as usize;
        words.swap(line * STEP, other * STEP);
    }
}

pub(super) fn chase(bytes: usize, reports: &mut Reports<'_>) -> Endless {
    let mut field = Field::new(bytes)?;
    let words = field.words();
    link(words);
    let mut at = 0;
    repeat(reports, || {
        at = words[at] as usize;
        black_box(at);
    })
}

/// Walks a list like one on the heap, and adds up each node's values.
pub(super) fn list_sum(bytes: usize, reports: &mut Reports<'_>) -> Endless {
    let mut field = Field::new(bytes)?;
    let words = field.words();
    link(words);
    let (mut at, mut sum) = (0, 0_u64);
    repeat(reports, || {
        let node = &words[at..at + STEP];
        sum = node[1..].iter().fold(sum, |sum, value| sum.wrapping_mul(31).wrapping_add(*value));
        at = node[0] as usize;
        black_box(sum);
    })
}

/// Looks up hashed keys: the look-ups are independent.
pub(super) fn look_up(bytes: usize, reports: &mut Reports<'_>) -> Endless {
    let mut found = 0_u64;
    on(Field::words, bytes, reports, |words, random| {
        found += words[random.below((bytes / 8) as u64) as usize];
        black_box(found);
    })
}

/// P4's task on DRAM: writes 256 bytes to random places, by the C library. With `changes`, a byte
/// of the data changes each time; otherwise the data is constant, as in
/// [`smt`](crate::experiments::smt).
pub(super) fn write_records(bytes: usize, changes: bool, reports: &mut Reports<'_>) -> Endless {
    const RECORD: usize = 256;
    // Not zero: some processors write no zeros back over zeros.
    let mut record = [1; RECORD];
    on(Field::bytes, bytes, reports, |target, random| {
        let at = random.below((bytes / RECORD) as u64) as usize * RECORD;
        if changes {
            record[at % RECORD] = random.0 as u8;
        }
        // Opaque to the compiler, so that the copy is a call.
        let len = black_box(RECORD);
        target[at..at + len].copy_from_slice(&record[..len]);
    })
}

pub(super) fn sum_stream(reports: &mut Reports<'_>) -> Endless {
    on(Field::words, LARGE, reports, |words, _| {
        black_box(words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
    })
}

/// P4's sum of matrices: two are read, one is written, in order.
pub(super) fn matrix_sum(reports: &mut Reports<'_>) -> Endless {
    let (mut a, mut b, mut sum) =
        (Field::new(LARGE / 4)?, Field::new(LARGE / 4)?, Field::new(LARGE / 4)?);
    repeat(reports, || {
        let operands = a.words().iter().zip(b.words().iter());
        for (sum, (a, b)) in sum.words().iter_mut().zip(operands) {
            *sum = (f64::from_bits(*a) + f64::from_bits(*b)).to_bits();
        }
        black_box(&mut sum);
    })
}

/// Copies half of the memory to the other half, by the C library.
pub(super) fn copy_stream(reports: &mut Reports<'_>) -> Endless {
    on(Field::bytes, LARGE, reports, |bytes, _| {
        let (from, to) = bytes.split_at_mut(LARGE / 2);
        to.copy_from_slice(from);
        black_box(to);
    })
}

/// Searches for keys in sorted words by halving: each step depends on the previous one.
pub(super) fn binary_search(bytes: usize, reports: &mut Reports<'_>) -> Endless {
    let mut field = Field::new(bytes)?;
    let (words, mut random) = (field.words(), SplitMix64(1));
    words.iter_mut().enumerate().for_each(|(at, word)| *word = at as u64 * 3);
    repeat(reports, || {
        let key = random.below(words.len() as u64 * 3);
        black_box(words.binary_search(&key).is_ok());
    })
}

/// Follows chains under hashed keys: a head, then nodes at random places.
pub(super) fn hash_chains(bytes: usize, reports: &mut Reports<'_>) -> Endless {
    let (mut heads, mut nodes) = (Field::new(bytes / 4)?, Field::new(bytes)?);
    let (heads, nodes, mut random) = (heads.words(), nodes.words(), SplitMix64(3));
    let lines = (nodes.len() / STEP) as u64;
    let mut somewhere = || random.below(lines) * STEP as u64;
    heads.iter_mut().for_each(|head| *head = somewhere());
    nodes.chunks_mut(STEP).for_each(|node| node[0] = somewhere());
    let mut random = SplitMix64(1);
    repeat(reports, || {
        let mut at = heads[random.below(heads.len() as u64) as usize] as usize;
        for _ in 0..3 {
            at = nodes[at] as usize;
        }
        black_box(at);
    })
}

/// Copies lines from random places to random places.
pub(super) fn scatter(bytes: usize, reports: &mut Reports<'_>) -> Endless {
    let lines = (bytes / LINE) as u64;
    on(Field::words, bytes, reports, |words, random| {
        let [from, to] = [0, 1].map(|_| random.below(lines) as usize * STEP);
        words.copy_within(from..from + STEP, to);
    })
}

/// Multiplies a large matrix by a small vector: the matrix is read once, in order.
pub(super) fn matrix_vector(reports: &mut Reports<'_>) -> Endless {
    const SIDE: usize = 4096;
    let matrix = vec![1.25_f64; SIDE * SIDE];
    let vector = vec![0.5_f64; SIDE];
    repeat(reports, || {
        for row in matrix.chunks(SIDE) {
            black_box(row.iter().zip(&vector).map(|(a, b)| a * b).sum::<f64>());
        }
    })
}

/// Compares two equal halves, by the C library.
pub(super) fn compare_stream(reports: &mut Reports<'_>) -> Endless {
    on(Field::bytes, LARGE, reports, |bytes, _| {
        let (one, other) = bytes.split_at(LARGE / 2);
        black_box(one == other);
    })
}
