//! Callers that allocate and free at the same time, and that die at each of their steps.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::{bounded, dies_at_each_step, spawn};

/// A slab of objects of this size has two pages, and four of them.
const SIZE: usize = 512;
/// An object of this size and alignment takes pages of its own.
const LARGE: usize = 2 * PAGE;

struct Memory {
    words: Vec<AtomicU64>,
    /// The contents of the objects, in units of `SIZE`.
    objects: Vec<UnsafeCell<u32>>,
}

// SAFETY: the models check that only the caller that was given an object touches it.
unsafe impl Sync for Memory {}
// SAFETY: as for Sync.
unsafe impl Send for Memory {}

impl Memory {
    fn new(pages: usize) -> Arc<Self> {
        let words = (0..pages).map(|_| AtomicU64::new(0)).collect();
        let objects = (0..pages * PAGE / SIZE).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { words, objects })
    }

    /// Creates memory that begins with a slab of free objects.
    fn with_slab(pages: usize) -> Arc<Self> {
        let memory = Self::new(pages);
        let mut caller = memory.caller(9);
        let object = caller.alloc(SIZE, 1).unwrap();
        caller.free(object).unwrap();
        memory
    }

    fn caller(&self, id: u32) -> Caller<'_> {
        Caller::new(Heap::of_words(&self.words), id)
    }

    fn bytes(&self) -> usize {
        self.words.len() * PAGE
    }

    /// Writes to all of an object, which no other caller may do at that time.
    fn write(&self, object: usize, size: usize) {
        let parts = object / SIZE..(object + size) / SIZE;
        // SAFETY: given out to the caller.
        self.objects[parts].iter().for_each(|part| part.with_mut(|part| unsafe { *part += 1 }));
    }

    fn alloc_and_free(&self, id: u32, size: usize, align: usize) -> bool {
        let mut caller = self.caller(id);
        let object = caller.alloc(size, align);
        object.inspect(|&object| {
            self.write(object, size);
            caller.free(object).unwrap();
        });
        object.is_some()
    }

    /// Frees the objects of the living, and checks that at most `most_leaked` bytes are missing.
    fn settle(&self, held: impl IntoIterator<Item = usize>, most_leaked: usize) {
        let mut caller = self.caller(8);
        held.into_iter().for_each(|object| caller.free(object).unwrap());
        let stats = caller.heap.stats();
        assert_eq!(stats.in_flight, 0);
        assert!(stats.in_use <= most_leaked, "{stats:?}");
        caller.reclaim();
        let stats = caller.heap.stats();
        assert!(stats.in_use > 0 || stats.free == self.bytes(), "{stats:?}");
    }
}

#[test]
fn the_next_owner_of_an_object_comes_after_the_previous() {
    bounded(3, || {
        let memory = Memory::with_slab(2);
        let other = spawn(&memory, |memory| memory.alloc_and_free(1, SIZE, 1));
        assert!(memory.alloc_and_free(2, SIZE, 1));
        assert!(other.join().unwrap());
        memory.settle([], 0);
    });
}

#[test]
fn the_next_owner_of_pages_comes_after_the_previous() {
    bounded(3, || {
        let memory = Memory::new(2);
        let other = spawn(&memory, |memory| memory.alloc_and_free(1, LARGE, LARGE));
        memory.alloc_and_free(2, LARGE, LARGE);
        other.join().unwrap();
        memory.settle([], 0);
    });
}

#[test]
fn a_page_is_given_out_after_the_run_it_was_a_part_of() {
    bounded(3, || {
        let memory = Memory::new(2);
        let other = spawn(&memory, |memory| memory.alloc_and_free(1, LARGE, LARGE));
        let mut caller = memory.caller(2);
        // The first of a slab of one page, so that the whole page is the caller's.
        let object = caller.alloc(16, 1);
        object.inspect(|&object| memory.write(object, PAGE));
        other.join().unwrap();
        memory.settle(object, 0);
    });
}

#[test]
fn an_object_is_found_in_the_slab_of_another() {
    bounded(3, || {
        let memory = Memory::new(2);
        let other = spawn(&memory, |memory| memory.caller(1).alloc(SIZE, 1));
        let mut caller = memory.caller(2);
        let objects: Vec<_> = (0..3).filter_map(|_| caller.alloc(SIZE, 1)).collect();
        objects.into_iter().for_each(|object| caller.free(object).unwrap());
        memory.settle(other.join().unwrap(), 0);
    });
}

#[test]
fn a_slab_is_reclaimed_only_if_it_is_empty() {
    bounded(3, || {
        let memory = Memory::with_slab(4);
        let other = spawn(&memory, |memory| memory.caller(1).reclaim());
        let object = memory.caller(2).alloc(SIZE, 1).unwrap();
        other.join().unwrap();
        assert_eq!(memory.caller(2).heap.size_of(object), Ok(SIZE));
        memory.settle([object], 0);
    });
}

/// Lets one caller die in `life` while another one allocates; then sweeps. An object that the dead
/// caller has not reported is lost.
fn survives(
    memory: fn() -> Arc<Memory>,
    life: fn(&Memory, u32) -> Option<usize>,
    alongside: fn(&Memory, u32) -> Option<usize>,
    most_leaked: usize,
) {
    dies_at_each_step(3, move |death| {
        let memory = memory();
        let death = death.clone();
        let victim = spawn(&memory, move |memory| death.of(|| life(memory, 1)));
        let held = alongside(&memory, 2);
        let told = victim.join().unwrap();
        memory.caller(3).sweep(1);
        let leaked = if told.is_some() { 0 } else { most_leaked };
        memory.settle(held.into_iter().chain(told.flatten()), leaked);
    });
}

fn small(memory: &Memory, id: u32) -> Option<usize> {
    memory.caller(id).alloc(SIZE, 1)
}

fn large(memory: &Memory, id: u32) -> Option<usize> {
    memory.caller(id).alloc(LARGE, LARGE)
}

#[test]
fn a_death_in_an_allocation_costs_one_object() {
    survives(|| Memory::new(4), small, small, SIZE);
}

#[test]
fn a_death_in_a_large_allocation_costs_one_object() {
    survives(|| Memory::new(4), large, large, LARGE);
}

#[test]
fn a_death_in_a_free_costs_one_object() {
    let life = |memory: &Memory, id| {
        memory.alloc_and_free(id, SIZE, 1);
        None
    };
    survives(|| Memory::with_slab(2), life, small, SIZE);
}

#[test]
fn a_death_in_a_large_free_costs_one_object() {
    let life = |memory: &Memory, id| {
        memory.alloc_and_free(id, LARGE, LARGE);
        None
    };
    survives(|| Memory::new(2), life, large, LARGE);
}

#[test]
fn a_death_in_reclaiming_costs_nothing() {
    let life = |memory: &Memory, id| {
        memory.caller(id).reclaim();
        None
    };
    survives(|| Memory::with_slab(2), life, large, 0);
}

/// Creates memory of which a dead caller was putting a run together.
fn left_behind() -> Arc<Memory> {
    let memory = Memory::new(2);
    memory.words[0].store(PageWord::claim(7).0, Ordering::Relaxed);
    memory.words[1].store(PageWord::part(1).0, Ordering::Relaxed);
    memory
}

#[test]
fn two_sweepers_give_back_once() {
    bounded(3, || {
        let memory = left_behind();
        let other = spawn(&memory, |memory| memory.caller(1).sweep(7));
        let mut caller = memory.caller(2);
        let swept = caller.sweep(7);
        let held = caller.alloc(LARGE, LARGE);
        assert_eq!(swept + other.join().unwrap(), LARGE);
        if let Some(object) = held {
            assert_eq!(memory.caller(3).heap.stats().in_use, LARGE);
            memory.write(object, LARGE);
        }
        memory.settle(held, 0);
    });
}

#[test]
fn a_sweeper_that_dies_is_swept() {
    let life = |memory: &Memory, id| {
        memory.caller(id).sweep(7);
        None
    };
    let alongside = |memory: &Memory, id| {
        let mut caller = memory.caller(id);
        caller.sweep(7);
        caller.alloc(SIZE, 1)
    };
    survives(left_behind, life, alongside, 0);
}

/// Both callers have seen the object as taken before either of them frees it.
#[test]
fn of_two_callers_that_free_one_object_one_is_refused() {
    bounded(2, || {
        let memory = Memory::with_slab(2);
        let object = memory.caller(1).alloc(SIZE, 1).unwrap();
        let other = spawn(&memory, move |memory| memory.caller(2).free(object).is_ok());
        let mine = memory.caller(3).free(object).is_ok();
        assert!(other.join().unwrap() != mine);
    });
}
