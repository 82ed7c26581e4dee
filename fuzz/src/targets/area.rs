//! Compares the notification area and the vector scan with a plain list of words.

use std::{
    array,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed},
};

use daiko_context::scan;
use daiko_core::watch::Area;

/// Number of words: enough for blocks of every vector width with some words before and behind.
const WORDS: usize = 70;

/// Each four bytes are a step: operation, word, and two operands.
pub(super) fn fuzz(data: &[u8]) {
    let names: [u8; WORDS] = array::from_fn(|i| i as u8);
    let (words, masks) =
        (array::from_fn(|_| AtomicU64::new(0)), array::from_fn(|_| AtomicU64::new(0)));
    let waiters: [_; WORDS] = array::from_fn(|_| AtomicPtr::default());
    let area = Area::<u64, u8>::new(&words, &masks, &waiters);
    let mut plain = Plain::default();
    for &[what, at, bit, byte] in data.as_chunks().0 {
        let i = usize::from(at) % WORDS;
        let value = u64::from(byte) << (bit % 64);
        match what % 7 {
            0 => {
                words[i].store(value, Relaxed);
                plain.0[i].value = value;
            }
            1 if plain.0[i].waiter.is_none() => {
                area.arm(i, value, NonNull::from(&names[i]));
                (plain.0[i].mask, plain.0[i].waiter) = (value, Some(i));
            }
            2 => {
                let to = i + usize::from(byte) % (WORDS - i + 1);
                let expected = (i..to).find(|&i| plain.0[i].is_hit());
                assert_eq!(area.find_hit(i, to), expected);
                assert_eq!(find_by_vectors(&words, &masks, i, to), expected);
            }
            3 => assert_eq!(area.claim_hit(i).map(name), plain.claim_hit(i)),
            4 => assert_eq!(area.take_waiter(i).map(name), plain.take_waiter(i)),
            5 => assert_eq!(area.take(i), std::mem::take(&mut plain.0[i].value)),
            _ => assert_eq!(area.any_armed(), plain.0.iter().any(|word| word.mask != 0)),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct AreaWord {
    value: u64,
    mask: u64,
    waiter: Option<usize>,
}

impl AreaWord {
    fn is_hit(&self) -> bool {
        self.value & self.mask != 0
    }
}

struct Plain([AreaWord; WORDS]);

impl Default for Plain {
    fn default() -> Self {
        Self([AreaWord::default(); WORDS])
    }
}

impl Plain {
    fn claim_hit(&mut self, i: usize) -> Option<usize> {
        self.0[i].is_hit().then(|| self.take_waiter(i)).flatten()
    }

    fn take_waiter(&mut self, i: usize) -> Option<usize> {
        let waiter = self.0[i].waiter.take()?;
        self.0[i].mask = 0;
        Some(waiter)
    }
}

fn name(waiter: NonNull<u8>) -> usize {
    // SAFETY: all waiters are elements of `names`, which is not written and outlives the area.
    usize::from(unsafe { *waiter.as_ref() })
}

fn find_by_vectors(
    words: &[AtomicU64; WORDS],
    masks: &[AtomicU64; WORDS],
    from: usize,
    to: usize,
) -> Option<usize> {
    // SAFETY: both are arrays of `WORDS` words with the alignment of integers, and `to` is at most
    // that.
    unsafe { scan::find_hit_u64(words.as_ptr().cast(), masks.as_ptr().cast(), from, to) }
}
