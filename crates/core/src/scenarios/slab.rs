//! An allocator with callers that free each other's objects; one of them dies.

use std::collections::BTreeMap;
use std::sync::Mutex;

use shuttle::sync::Arc;

use super::{below, rehearse};
use crate::atomic::AtomicU64;
use crate::modelled::{Death, spawn};
use crate::slab::{Caller, Heap, PAGE, Stats};

const PAGES: usize = 24;
const STEPS: usize = 10;
/// Number of accesses before one of which the victim dies, if it makes so many.
const ACCESSES: usize = 150;
const CALLERS: u32 = 3;
/// Sizes and alignments: slabs of one page, of several, and an object with pages of its own.
const SIZES: [(usize, usize); 3] = [(16, 1), (1024, 1), (3 * PAGE, 2 * PAGE)];

struct Memory {
    words: Vec<AtomicU64>,
    /// The allocated objects, and their lengths. Std's lock: no thread is preempted between two
    /// looks at it, and none dies there.
    live: Mutex<BTreeMap<usize, usize>>,
}

impl Memory {
    fn alloc(&self, caller: &mut Caller<'_>) {
        let (size, align) = SIZES[below(SIZES.len())];
        let Some(offset) = caller.alloc(size, align) else { return };
        let mut live = self.live.lock().unwrap();
        let before = live.range(..offset + size).next_back();
        assert!(before.is_none_or(|(before, size)| before + size <= offset), "given out twice");
        live.insert(offset, size);
    }

    fn free(&self, caller: &mut Caller<'_>) {
        let mut live = self.live.lock().unwrap();
        let Some(at) = live.len().checked_sub(1).map(|most| below(most + 1)) else { return };
        let offset = *live.keys().nth(at).unwrap();
        live.remove(&offset);
        drop(live);
        caller.free(offset).unwrap();
    }

    fn work(&self, id: u32) {
        let mut caller = Caller::new(Heap::of_words(&self.words), id);
        for _ in 0..STEPS {
            match below(8) {
                0..4 => self.alloc(&mut caller),
                4..7 => self.free(&mut caller),
                _ => _ = caller.reclaim(),
            }
        }
    }

    /// Checks that only the objects that the dead caller had in hand are lost.
    fn settle(&self, most_leaked: usize) {
        let heap = Heap::of_words(&self.words);
        let mut caller = Caller::new(heap, CALLERS + 1);
        let live = std::mem::take(&mut *self.live.lock().unwrap());
        live.keys().for_each(|&offset| caller.free(offset).unwrap());
        caller.reclaim();
        let stats = heap.stats();
        assert!(stats.in_flight == 0 && stats.in_use <= most_leaked, "{stats:?}");
        let free = Stats { free: PAGES * PAGE, ..Stats::default() };
        assert!(stats.in_use > 0 || stats == free, "{stats:?}");
    }
}

#[test]
fn a_death_costs_one_object_at_most() {
    rehearse(|| {
        let words = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let memory = Arc::new(Memory { words, live: Mutex::default() });
        let death = Death::before(below(ACCESSES));
        let victim = spawn(&memory, move |memory| death.of(|| memory.work(0)));
        let others = [1, 2].map(|id| spawn(&memory, move |memory| memory.work(id)));
        let died = victim.join().unwrap().is_none();
        Caller::new(Heap::of_words(&memory.words), CALLERS).sweep(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        memory.settle(if died { 4 * PAGE } else { 0 });
    });
}
