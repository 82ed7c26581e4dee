//! The heap against a map of its objects, under threads, and over foreign words.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Barrier, Mutex};
use std::thread;

use proptest::prelude::*;

use super::region::{HEADER, divide};
use super::reserve::FIRST;
use super::*;
use crate::testing::scaled;

struct Memory {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory; a thread writes only to parts that it was given.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len, ALIGN).unwrap();
        // SAFETY: not of size 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        Self { base, layout }
    }

    fn open(&self, len: usize) -> Result<Heap<'_>, Refused> {
        // SAFETY: it lives as long as the heap, and objects are written only at their places.
        unsafe { Heap::over(self.base, len) }
    }

    fn heap(&self) -> Heap<'_> {
        self.open(self.layout.size()).unwrap()
    }

    #[allow(clippy::mut_from_ref, reason = "of objects, which are disjoint")]
    fn bytes(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.layout.size());
        // SAFETY: inside the memory, and given out to the caller.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { by: usize, size: usize, align: usize },
    Free { by: usize, which: usize },
    Reclaim { by: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![8 => 0..200usize, 2 => 200..5000usize, 1 => 5000..100_000usize];
    let align = prop_oneof![6 => Just(8), 1 => (0..13u32).prop_map(|log| 1usize << log)];
    let alloc =
        (0..2usize, size, align).prop_map(|(by, size, align)| Step::Alloc { by, size, align });
    let free = (0..2usize, any::<usize>()).prop_map(|(by, which)| Step::Free { by, which });
    let reclaim = (0..2usize).prop_map(|by| Step::Reclaim { by });
    prop::collection::vec(prop_oneof![60 => alloc, 45 => free, 1 => reclaim], 0..scaled(300))
}

/// The live objects: the length and fill byte of each.
#[derive(Default)]
struct Live(BTreeMap<usize, (usize, u8)>);

impl Live {
    /// Adds an object that overlaps no other, and fills it.
    fn add(&mut self, memory: &Memory, offset: usize, len: usize, fill: u8) {
        let before = self.0.range(..=offset).next_back();
        assert!(before.is_none_or(|(&before, &(len, _))| before + len <= offset), "overlaps");
        let after = self.0.range(offset..).next();
        assert!(after.is_none_or(|(&after, _)| offset + len <= after), "overlaps");
        memory.bytes(offset, len).fill(fill);
        self.0.insert(offset, (len, fill));
    }

    /// Removes one of them, and checks that its bytes are unchanged.
    fn remove(&mut self, memory: &Memory, which: usize) -> Option<usize> {
        let at = which.checked_rem(self.0.len())?;
        let (&offset, &(len, fill)) = self.0.iter().nth(at).unwrap();
        assert!(memory.bytes(offset, len).iter().all(|&byte| byte == fill));
        self.0.remove(&offset);
        Some(offset)
    }
}

/// Returns the statistics of a heap without objects.
fn all_free(heap: Heap<'_>) -> Stats {
    Stats { free: heap.pages() * PAGE, ..Stats::default() }
}

proptest! {
    #[test]
    fn objects_are_disjoint_aligned_and_keep_their_content(steps in steps(), len in 16_384..600_000usize) {
        let memory = Memory::new(len);
        let heap = memory.heap();
        let (mut callers, mut live) = ([1, 2].map(|id| Caller::new(heap, id)), Live::default());
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Alloc { by, size, align } => {
                    let Some(offset) = callers[by].alloc(size, align) else { continue };
                    prop_assert_eq!(offset % align, 0);
                    let room = heap.size_of(offset).unwrap();
                    prop_assert!(room >= size);
                    live.add(&memory, offset, room, i as u8);
                }
                Step::Free { by, which } => {
                    let Some(offset) = live.remove(&memory, which) else { continue };
                    prop_assert_eq!(callers[by].free(offset), Ok(()));
                    prop_assert_eq!(callers[by].free(offset), Err(NotAllocated));
                }
                Step::Reclaim { by } => _ = callers[by].reclaim(),
            }
            let stats = heap.stats();
            prop_assert_eq!(stats.in_use, live.0.values().map(|(len, _)| len).sum::<usize>());
            prop_assert_eq!(stats.in_flight, 0);
        }
        while let Some(offset) = live.remove(&memory, 0) {
            prop_assert_eq!(callers[0].free(offset), Ok(()));
        }
        callers[1].reclaim();
        prop_assert_eq!(heap.stats(), all_free(heap));
    }

    #[test]
    fn calls_end_and_stay_inside_with_any_words(
        steps in steps(),
        scribbles in prop::collection::vec((any::<prop::sample::Index>(), 0..64u64, any::<u64>(), 0..64u32), 1..200),
    ) {
        let memory = Memory::new(200_000);
        let heap = memory.heap();
        let mut callers = [1, 2].map(|id| Caller::new(heap, id));
        let mut scribbles = scribbles.iter().cycle();
        for step in steps {
            let (page, tag, rest, shift) = scribbles.next().unwrap();
            page.get(heap.words).store(tag << 58 | rest >> shift, Ordering::Relaxed);
            match step {
                Step::Alloc { by, size, align } => {
                    let Some(offset) = callers[by].alloc(size, align) else { continue };
                    prop_assert_eq!(offset % align, 0);
                    prop_assert!(offset >= heap.at && offset + size <= memory.layout.size());
                }
                Step::Free { by, which } => {
                    let offset = which % (2 * memory.layout.size());
                    let _ = callers[by].free(offset / 16 * 16);
                    if let Ok(size) = heap.size_of(offset / 16 * 16) {
                        prop_assert!(offset / 16 * 16 + size <= memory.layout.size());
                    }
                }
                Step::Reclaim { by } => {
                    callers[by].reclaim();
                    callers[by].sweep(*rest as u32);
                }
            }
            heap.stats();
        }
    }
}

#[test]
fn threads_share_without_overlap() {
    const ROUNDS: usize = scaled(20_000);
    let memory = Memory::new(1 << 20);
    let (start, handed_on) = (Barrier::new(3), Mutex::new(Vec::new()));
    let work = |id: u32| {
        let mut caller = Caller::new(memory.heap(), id);
        start.wait();
        for i in 0..ROUNDS {
            let size = if i % 100 == 0 { 40_000 } else { 16 + i * 31 % 300 };
            if let Some(offset) = caller.alloc(size, 8) {
                memory.bytes(offset, size).fill(id as u8);
                handed_on.lock().unwrap().push((offset, size, id as u8));
            }
            let taken = (i % 7 > 0).then(|| handed_on.lock().unwrap().pop()).flatten();
            if let Some((offset, size, fill)) = taken {
                assert_eq!(memory.bytes(offset, size), vec![fill; size]);
                caller.free(offset).unwrap();
            }
        }
    };
    thread::scope(|scope| (1..=3).for_each(|id| _ = scope.spawn(move || work(id))));
    let mut caller = Caller::new(memory.heap(), 4);
    handed_on
        .into_inner()
        .unwrap()
        .into_iter()
        .for_each(|(offset, ..)| caller.free(offset).unwrap());
    caller.reclaim();
    assert_eq!(memory.heap().stats(), all_free(memory.heap()));
}

#[test]
fn all_memory_is_given_out_before_none_is() {
    let memory = Memory::new(if cfg!(miri) { 1 << 16 } else { 1 << 20 });
    let (mut one, mut other) = (Caller::new(memory.heap(), 1), Caller::new(memory.heap(), 2));
    let small: Vec<_> = std::iter::from_fn(|| one.alloc(128, 1)).collect();
    assert!(memory.heap().stats().free < 8 * PAGE);
    small.iter().for_each(|&object| other.free(object).unwrap());
    let large = memory.heap().pages() / 8 * 7 * PAGE;
    let object = other.alloc(large, 1).expect("empty slabs make room for large objects");
    assert!(one.alloc(large, 1).is_none());
    assert_eq!(one.free(object + PAGE), Err(NotAllocated));
    assert_eq!(one.free(object), Ok(()));
}

#[test]
fn objects_freed_by_others_are_used_before_new_pages() {
    let memory = Memory::new(1 << 22);
    let (mut producer, mut consumer) =
        (Caller::new(memory.heap(), 1), Caller::new(memory.heap(), 2));
    let queue: Vec<_> = (0..200).map(|_| producer.alloc(64, 8).unwrap()).collect();
    let mut queue = std::collections::VecDeque::from(queue);
    let used = |heap: Heap<'_>| {
        (0..heap.pages()).filter(|&page| heap.load(page) != PageWord::FREE).count()
    };
    let before = used(memory.heap());
    for _ in 0..scaled(20_000) {
        consumer.free(queue.pop_front().unwrap()).unwrap();
        queue.push_back(producer.alloc(64, 8).unwrap());
    }
    assert!(used(memory.heap()) <= before + Class::of(64, 8).unwrap().pages());
}

#[test]
fn claims_of_a_dead_caller_come_back() {
    let memory = Memory::new(1 << 18);
    let heap = memory.heap();
    let mut caller = Caller::new(heap, 1);
    let (kept, lost) = (caller.alloc(40_000, 1).unwrap(), caller.alloc(50_000, 1).unwrap());
    // As if the caller had died at the beginning of a free.
    let (head, ..) = heap.find(lost).unwrap();
    heap.words[head].store(PageWord::claim(1).0, Ordering::Relaxed);
    assert_eq!(heap.stats().in_flight, 49 * PAGE);
    let mut successor = Caller::new(heap, 2);
    assert_eq!(successor.sweep(3), 0);
    assert_eq!(successor.sweep(1), 49 * PAGE);
    assert_eq!(heap.stats().in_use, 40 * PAGE);
    assert_eq!(successor.free(kept), Ok(()));
}

#[test]
fn memory_that_is_no_heap_is_refused() {
    let memory = Memory::new(1 << 16);
    assert_eq!(memory.open(ALIGN).unwrap_err(), Refused::TooSmall);
    assert_eq!(memory.open(0).unwrap_err(), Refused::TooSmall);
    assert_eq!(divide(1 << 43), Err(Refused::TooLarge));
    let object = Caller::new(memory.heap(), 1).alloc(10, 1).unwrap();
    assert_eq!(memory.heap().size_of(object), Ok(16));
    assert_eq!(memory.open(1 << 15).unwrap_err(), Refused::Foreign);
    // SAFETY: the memory is refused before it is touched.
    let misaligned = unsafe { Heap::over(memory.base.add(64), 1 << 15) };
    assert_eq!(misaligned.unwrap_err(), Refused::Misaligned);
}

#[test]
fn pages_fill_the_memory_and_no_more() {
    for len in (ALIGN + PAGE..1 << 20).step_by(333) {
        let (at, pages) = divide(len).unwrap();
        assert!(at >= HEADER + 8 * pages && at + pages * PAGE <= len);
        assert!(len - pages * PAGE <= HEADER + 8 * pages + ALIGN + PAGE, "{len}");
    }
}

/// Creates a reserve of which little is open, and a caller of it.
fn reserve(memory: &Memory) -> (Reserve<'_>, Caller<'_>) {
    // SAFETY: it lives as long as the reserve, and objects are written only at their places.
    let reserve = unsafe { Reserve::over(memory.base, memory.layout.size()) }.unwrap();
    (reserve, Caller::new(reserve.heap(), 1))
}

#[test]
#[cfg_attr(miri, ignore = "fills megabytes, which takes too long")]
fn a_reserve_opens_the_needed_slabs() {
    let memory = Memory::new(4 << 20);
    let (reserve, mut caller) = reserve(&memory);
    let first = reserve.heap().open;
    assert!(reserve.alloc(&mut caller, PAGE * first / 2 + 1, 8).is_some());
    assert_eq!(reserve.heap().open, first);
    assert!(reserve.alloc(&mut caller, PAGE * first / 2 + 1, 8).is_some());
    assert_eq!(reserve.heap().open, 2 * first);
    assert!(reserve.alloc(&mut caller, 4 << 20, 8).is_none());
    assert!(reserve.alloc(&mut caller, usize::MAX, 8).is_none());
    assert_eq!(reserve.heap().open, 2 * first, "not for a size that never fits");
    while reserve.alloc(&mut caller, 128, 1).is_some() {}
    let stats = reserve.stats();
    assert!(stats.free < 16 * PAGE, "{stats:?}");
    assert_eq!(reserve.heap().open, reserve.all.pages());
}

#[test]
fn pages_that_are_not_open_count_as_free() {
    let memory = Memory::new(4 << 20);
    let (reserve, _) = reserve(&memory);
    assert!(reserve.heap().open < reserve.all.pages());
    assert_eq!(reserve.stats(), all_free(reserve.all));
}

#[test]
#[cfg_attr(miri, ignore = "fills megabytes, which takes too long")]
fn a_reserve_opens_no_more_where_slabs_are_empty() {
    let memory = Memory::new(4 << 20);
    let (reserve, mut caller) = reserve(&memory);
    for size in [64, 128, 256, 512, 1024, 2048] {
        let full = reserve.heap().open * PAGE / 2;
        let objects = (0..full / size).map(|_| reserve.alloc(&mut caller, size, 8).unwrap());
        let objects: Vec<_> = objects.collect();
        objects.into_iter().for_each(|object| caller.free(object).unwrap());
    }
    assert_eq!(reserve.heap().open, FIRST);
}

#[test]
#[cfg_attr(miri, ignore = "fills megabytes, which takes too long")]
fn slabs_opened_by_others_are_freed_swept_and_counted() {
    let memory = Memory::new(4 << 20);
    let (reserve, mut caller) = reserve(&memory);
    let mut narrow = Caller::new(reserve.heap(), 2);
    let small: Vec<_> = (0..20_000).map(|_| reserve.alloc(&mut caller, 64, 8).unwrap()).collect();
    let large = reserve.alloc(&mut caller, 1 << 20, 8).unwrap();
    assert_eq!(reserve.stats().in_use, (1 << 20) + 64 * 20_000);
    small.into_iter().for_each(|object| narrow.free(object).unwrap());
    let other = reserve.alloc(&mut caller, 1 << 20, 8).unwrap();
    narrow.free(other).unwrap();
    assert_eq!(reserve.stats().in_use, 1 << 20);
    // As if the first caller had died at the beginning of a free.
    let (head, ..) = narrow.heap.find(large).unwrap();
    narrow.heap.words[head].store(PageWord::claim(1).0, Ordering::Relaxed);
    assert_eq!(reserve.stats().in_flight, 1 << 20);
    assert_eq!(reserve.sweep(&mut narrow, 1), 1 << 20);
    narrow.reclaim();
    assert_eq!(reserve.stats(), all_free(reserve.all));
}

#[test]
fn calls_end_with_any_open_count_of_a_reserve() {
    let memory = Memory::new(4 << 20);
    let (reserve, mut caller) = reserve(&memory);
    for open in [0, 1, u64::MAX, 65, 0, 0] {
        reserve.open.store(open, Ordering::Relaxed);
        let object = reserve.alloc(&mut caller, 200 << 10, 8).unwrap();
        memory.bytes(object, 200 << 10).fill(1);
        reserve.sweep(&mut caller, 7);
        assert!(reserve.small().all(|bytes| bytes.end <= memory.layout.size()));
    }
}

#[test]
fn bytes_of_small_objects_are_known_as_such() {
    let memory = Memory::new(4 << 20);
    let (reserve, mut caller) = reserve(&memory);
    let small = [16, 5000, 300].map(|size| reserve.alloc(&mut caller, size, 8).unwrap());
    let large = reserve.alloc(&mut caller, 100 << 10, 8).unwrap();
    let ranges: Vec<_> = reserve.small().collect();
    assert!(ranges.is_sorted_by(|before, after| before.end < after.start));
    let known = |object| ranges.iter().any(|bytes| bytes.contains(object));
    assert!(small.iter().all(known) && known(&0) && !known(&large));
}

#[test]
fn an_object_that_was_freed_has_no_size() {
    let memory = Memory::new(1 << 16);
    let mut caller = Caller::new(memory.heap(), 1);
    let (kept, freed) = (caller.alloc(64, 1).unwrap(), caller.alloc(64, 1).unwrap());
    caller.free(freed).unwrap();
    assert_eq!(memory.heap().size_of(kept), Ok(64));
    assert_eq!(memory.heap().size_of(freed), Err(NotAllocated));
}
