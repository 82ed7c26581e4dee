//! Programs that write lines back, or look as if they did.
//!
//! The memory is not persistent. The processor treats a flush and a fence in the same way, except
//! for their duration.

use std::arch::{asm, x86_64};
use std::hint::black_box;
use std::slice::{self, from_ref};

use super::field::{Endless, Field, LARGE, LINE, NEAR, Reports, on, repeat};
use crate::kit::{Skip, SplitMix64};

const RECORD: usize = 256;

fn feature(bit: u32, name: &str) -> Result<(), Skip> {
    let leaf = x86_64::__cpuid_count(7, 0);
    match leaf.ebx >> bit & 1 {
        1 => Ok(()),
        _ => Err(Skip::new(format!("the processor has no {name}"))),
    }
}

pub(super) fn require_clwb() -> Result<(), Skip> {
    feature(24, "CLWB")
}

pub(super) fn require_clflushopt() -> Result<(), Skip> {
    feature(23, "CLFLUSHOPT")
}

/// Instruction that writes a line back.
#[derive(Clone, Copy)]
pub(super) enum Flush {
    Clflush,
    Clflushopt,
    Clwb,
}

/// Begins to write back the lines of `bytes`. The processor has the instruction. Without `FLUSHES`,
/// the bytes are only kept as they are in the memory, for the form that a task is compared with.
#[inline(always)]
fn flush<const FLUSHES: bool>(bytes: &[u8], how: Flush) {
    if !FLUSHES {
        black_box(bytes);
        return;
    }
    for line in bytes.chunks(LINE) {
        let address = line.as_ptr();
        // SAFETY: writing a line back changes no value.
        unsafe {
            match how {
                Flush::Clflush => asm!("clflush [{}]", in(reg) address, options(nostack)),
                Flush::Clflushopt => asm!("clflushopt [{}]", in(reg) address, options(nostack)),
                Flush::Clwb => asm!("clwb [{}]", in(reg) address, options(nostack)),
            }
        }
    }
}

/// Bytes of data that is written back, or of that in the form without flushes.
const fn bytes_in_use(flushes: bool) -> usize {
    if flushes { LARGE } else { NEAR }
}

#[inline(always)]
fn fence<const FLUSHES: bool>() {
    if FLUSHES {
        // SAFETY: all processors of this architecture have it.
        unsafe { x86_64::_mm_sfence() };
    }
}

/// Stores eight bytes past the caches.
#[inline(always)]
fn store_nontemporal(word: &mut u64, value: u64) {
    // SAFETY: the word is borrowed for writing.
    unsafe { x86_64::_mm_stream_si64((word as *mut u64).cast(), value as i64) };
}

/// Like [`records`] with CLWB and a word each, but the same code in all builds.
pub(super) fn assembly(reports: &mut Reports<'_>) -> Endless {
    const ROUNDS: u64 = 1 << 20;
    let mut field = Field::new(LARGE)?;
    let (bytes, mut random) = (field.bytes(), 1_u64);
    reports.prepared();
    loop {
        // SAFETY: the processor has the instruction. The masked offset is that of a line of the
        // memory, as its length is a power of two.
        unsafe {
            asm!(
                "2:",
                // Xorshift (G. Marsaglia, 2003).
                "mov {at}, {random}", "shl {at}, 13", "xor {random}, {at}",
                "mov {at}, {random}", "shr {at}, 7", "xor {random}, {at}",
                "mov {at}, {random}", "shl {at}, 17", "xor {random}, {at}",
                "mov {at}, {random}", "and {at}, {mask}",
                "mov [{start} + {at}], {random}",
                "clwb [{start} + {at}]",
                "sfence",
                "dec {rounds}",
                "jnz 2b",
                start = in(reg) bytes.as_mut_ptr(),
                mask = in(reg) (LARGE - 1) & !(LINE - 1),
                random = inout(reg) random,
                rounds = inout(reg) ROUNDS => _,
                at = out(reg) _,
                options(nostack),
            );
        }
    }
}

#[inline(always)]
pub(super) fn records<const FLUSHES: bool>(reports: &mut Reports<'_>, how: Flush) -> Endless {
    on(Field::bytes, bytes_in_use(FLUSHES), reports, |bytes, random| {
        let at = random.below((bytes_in_use(FLUSHES) / RECORD) as u64) as usize * RECORD;
        let record = &mut bytes[at..at + RECORD];
        record.fill(random.0 as u8);
        flush::<FLUSHES>(record, how);
        fence::<FLUSHES>();
    })
}

/// Fills lines in order, and writes each back before the next.
pub(super) fn log<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    let mut count = 0;
    on(Field::bytes, bytes_in_use(FLUSHES), reports, |bytes, _| {
        count = (count + 1) % (bytes_in_use(FLUSHES) / LINE);
        let line = &mut bytes[count * LINE..(count + 1) * LINE];
        line.fill(count as u8);
        flush::<FLUSHES>(line, Flush::Clflush);
        fence::<FLUSHES>();
    })
}

/// Writes past the caches to random places, as libpmem writes pieces that are not small.
pub(super) fn nontemporal_random<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    on(Field::words, bytes_in_use(FLUSHES), reports, |words, random| {
        let at = random.below((bytes_in_use(FLUSHES) / RECORD) as u64) as usize * (RECORD / 8);
        let record = &mut words[at..at + RECORD / 8];
        if FLUSHES {
            record.iter_mut().for_each(|word| store_nontemporal(word, at as u64));
        } else {
            record.fill(at as u64);
            black_box(record);
        }
        fence::<FLUSHES>();
    })
}

/// Inserts into chains under random keys: a new node is persistent before its chain begins with it.
pub(super) fn map<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    const CHAINS: u64 = 1 << 16;
    const NODE: usize = LINE / 8;
    let (mut heads, mut nodes) =
        (Field::new(CHAINS as usize * 8)?, Field::new(bytes_in_use(FLUSHES))?);
    let (heads, nodes, mut random) = (heads.words(), nodes.words(), SplitMix64(1));
    let mut at = 0;
    repeat(reports, || {
        let key = random.next();
        let head = &mut heads[(key % CHAINS) as usize];
        at = (at + NODE) % nodes.len();
        nodes[at..at + 3].copy_from_slice(&[key, *head, random.0]);
        persist::<FLUSHES>(&nodes[at..=at], Flush::Clwb);
        *head = at as u64;
        persist::<FLUSHES>(from_ref(head), Flush::Clwb);
    })
}

/// Writes the lines of `words` back, and waits for completion.
#[inline(always)]
fn persist<const FLUSHES: bool>(words: &[u64], how: Flush) {
    flush::<FLUSHES>(bytes_of(words), how);
    fence::<FLUSHES>();
}

#[inline(always)]
fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: the same memory under the same borrow; every byte of a word is a valid byte.
    unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Writes `value` to the first word of a random line, and writes the line back.
#[inline(always)]
fn persist_somewhere<const FLUSHES: bool>(words: &mut [u64], random: &mut SplitMix64, value: u64) {
    let word =
        &mut words[random.below((bytes_in_use(FLUSHES) / LINE) as u64) as usize * (LINE / 8)];
    *word = value;
    persist::<FLUSHES>(from_ref(word), Flush::Clwb);
}

/// Works for a short time before each line.
pub(super) fn after_work<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    on(Field::words, bytes_in_use(FLUSHES), reports, |words, random| {
        let value = (0..16).fold(0, |sum, _| sum ^ random.next());
        persist_somewhere::<FLUSHES>(words, random, value);
    })
}

/// Works for a long time before each line.
pub(super) fn seldom<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    on(Field::words, bytes_in_use(FLUSHES), reports, |words, random| {
        let value = (0..8192).fold(0, |sum: u64, _| sum.rotate_left(7) ^ random.next());
        persist_somewhere::<FLUSHES>(words, random, value);
    })
}

/// Writes plainly in order; the flush in the same loop is seldom reached.
pub(super) fn writes_beside_flush<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    let mut count = 0_u64;
    on(Field::words, LARGE, reports, |words, _| {
        for line in words.chunks_mut(LINE / 8) {
            count += 1;
            line.fill(black_box(count));
            if count.is_multiple_of(1 << 20) {
                persist::<FLUSHES>(&line[..1], Flush::Clflush);
            }
        }
    })
}

/// Writes like a large copy: past the caches, in order, without a fence between the stores.
pub(super) fn nontemporal_stream(reports: &mut Reports<'_>) -> Endless {
    let mut count = 0;
    on(Field::words, LARGE, reports, |words, _| {
        count += 1;
        words.iter_mut().for_each(|word| store_nontemporal(word, count));
        fence::<true>();
    })
}

/// Fences while only writes to the first-level cache are in flight.
pub(super) fn fence_cached(reports: &mut Reports<'_>) -> Endless {
    let mut words = [0_u64; NEAR / 1024];
    let mut random = SplitMix64(1);
    repeat(reports, || {
        let value = (0..8).fold(0, |sum: u64, _| sum.rotate_left(7) ^ random.next());
        words[value as usize % words.len()] = value;
        black_box(&mut words);
        fence::<true>();
    })
}

/// Writes two cells of a ring, and the word that holds its end, as a producer does.
pub(super) fn queue<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    let (mut cells, mut ends) = (Field::new(bytes_in_use(FLUSHES))?, Field::new(LINE)?);
    let (cells, end, mut random) = (cells.words(), ends.words(), SplitMix64(1));
    const CELLS: usize = 2 * LINE / 8;
    repeat(reports, || {
        let at = end[0] as usize % (cells.len() / CELLS) * CELLS;
        let written = &mut cells[at..at + CELLS];
        written.fill(random.next());
        persist::<FLUSHES>(written, Flush::Clwb);
        end[0] += 1;
        persist::<FLUSHES>(&end[..1], Flush::Clwb);
    })
}

/// Flips single bits at random places, with the fence that also waits for loads.
pub(super) fn bitmap<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    on(Field::words, bytes_in_use(FLUSHES), reports, |words, random| {
        let bit = random.below(bytes_in_use(FLUSHES) as u64 * 8) as usize;
        let word = &mut words[bit / 64];
        *word ^= 1 << (bit % 64);
        flush::<FLUSHES>(bytes_of(from_ref(word)), Flush::Clwb);
        if FLUSHES {
            // SAFETY: all processors of this architecture have it.
            unsafe { x86_64::_mm_mfence() };
        }
    })
}

/// Logs old and new values in a journal before it writes the values: four lines in order, at random
/// places.
pub(super) fn undo_log<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    let (mut log, mut data) = (Field::new(1 << 20)?, Field::new(bytes_in_use(FLUSHES))?);
    let (log, data, mut random) = (log.words(), data.words(), SplitMix64(1));
    let mut at = 0;
    repeat(reports, || {
        let target = random.below((bytes_in_use(FLUSHES) / LINE) as u64) as usize * (LINE / 8);
        at = (at + LINE / 8) % log.len();
        log[at..at + 2].copy_from_slice(&[target as u64, data[target]]);
        persist::<FLUSHES>(&log[at..=at], Flush::Clwb);
        data[target] = random.0;
        persist::<FLUSHES>(&data[target..=target], Flush::Clwb);
        log[at] = 0;
        persist::<FLUSHES>(&log[at..=at], Flush::Clwb);
    })
}

/// Writes plainly in order, with a fence after each page and nothing to be written back.
pub(super) fn fenced_stream(reports: &mut Reports<'_>) -> Endless {
    on(Field::words, LARGE, reports, |words, _| {
        for page in words.chunks_mut(512) {
            let value = black_box(page[0] + 1);
            page.fill(value);
            fence::<true>();
        }
    })
}

/// Works on a small table, and persists a snapshot of it occasionally.
pub(super) fn snapshots<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    let (mut table, mut image) = (Field::new(8 << 10)?, Field::new(8 << 10)?);
    let mut random = SplitMix64(1);
    repeat(reports, || {
        for _ in 0..100_000 {
            let at = random.below(1024) as usize;
            table.words()[at] = table.words()[at].rotate_left(9) ^ random.0;
        }
        image.bytes().copy_from_slice(table.bytes());
        flush::<FLUSHES>(image.bytes(), Flush::Clflush);
        fence::<FLUSHES>();
    })
}
