use super::*;
use crate::memory::{GuardKind, install_guard, page_size};
use crate::testing::LinuxPart;
use proptest::prelude::*;

const RESERVE: usize = 8 << 20;

/// Hands out memory that is not zero, as a source need not zero it.
struct Heap;

// SAFETY: in tests there is one process.
unsafe impl MemorySource for Heap {
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: not of size 0; written inside.
        unsafe {
            let size = layout.size().max(1);
            let layout = Layout::from_size_align(size, layout.align()).unwrap();
            let memory = NonNull::new(std::alloc::alloc(layout))?;
            memory.write_bytes(0xa5, size);
            Some(memory)
        }
    }

    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise; the allocator of these tests asks for no alignment.
        unsafe {
            let size = layout.size().max(1);
            let layout = Layout::from_size_align(size, layout.align()).unwrap();
            std::alloc::dealloc(memory.as_ptr(), layout);
        }
    }
}

fn arenas() -> [Arena; 3] {
    [Arena::private(), Arena::shared(RESERVE).unwrap(), Arena::lent(&Heap)]
}

fn fill(start: NonNull<u8>, len: usize, byte: u8) {
    // SAFETY: the tests pass memory that they own.
    unsafe { start.as_ptr().write_bytes(byte, len) };
}

fn holds(start: NonNull<u8>, len: usize, byte: u8) -> bool {
    // SAFETY: the tests pass initialised memory that they own.
    let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
    bytes == vec![byte; len]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Live objects never overlap: each keeps the byte that it was filled with.
    #[test]
    fn objects_are_aligned_and_apart(
        steps in prop::collection::vec((0..3u8, 0..40_000usize, 0..14u32), 1..200)
    ) {
        for arena in arenas() {
            let mut live: Vec<(NonNull<u8>, Layout, u8)> = Vec::new();
            for (step, &(action, size, align)) in (0u8..).zip(&steps) {
                if action == 0 && !live.is_empty() {
                    let (object, layout, byte) = live.swap_remove(size % live.len());
                    prop_assert!(holds(object, layout.size(), byte));
                    // SAFETY: the object is live, of this arena and layout.
                    unsafe { arena.free(object, layout) };
                    continue;
                }
                let layout = Layout::from_size_align(size, 1 << align).unwrap();
                let object = arena.alloc(layout).unwrap();
                prop_assert_eq!(object.align_offset(layout.align()), 0);
                fill(object, size, step);
                live.push((object, layout, step));
            }
            for (object, layout, byte) in live {
                prop_assert!(holds(object, layout.size(), byte));
                // SAFETY: as above.
                unsafe { arena.free(object, layout) };
            }
        }
    }

    /// Regions are zeroed and disjoint in any order of mapping and dropping, and the whole
    /// reservation becomes free again.
    #[test]
    fn regions_are_zeroed_and_return(
        steps in prop::collection::vec((0..3u8, 1..90_000usize, 12..18u32), 1..60)
    ) {
        if LinuxPart::Removal.is_lacking() {
            return Ok(());
        }
        let arena = Arena::shared(RESERVE).unwrap();
        let mut live: Vec<(Region, u8)> = Vec::new();
        for (step, &(action, size, align)) in (1u8..).zip(&steps) {
            if action == 0 && !live.is_empty() {
                let (region, byte) = live.swap_remove(size % live.len());
                prop_assert!(holds(region.start(), region.len(), byte));
                continue;
            }
            let region = arena.map(size, 1 << align).unwrap();
            prop_assert!(region.len() >= size);
            prop_assert_eq!(region.start().align_offset(1 << align), 0);
            prop_assert!(holds(region.start(), region.len(), 0));
            fill(region.start(), region.len(), step);
            live.push((region, step));
        }
        drop(live);
        let all = arena.map(RESERVE, 1).unwrap();
        prop_assert!(holds(all.start(), all.len(), 0));
    }
}

#[test]
fn freed_memory_is_used_again() {
    let layout = Layout::from_size_align(64, 64).unwrap();
    // Reuse of lent memory is up to its source.
    for arena in arenas().into_iter().take(2) {
        let first = arena.alloc(layout).unwrap();
        // SAFETY: the object is live, of this arena and layout.
        unsafe { arena.free(first, layout) };
        assert_eq!(arena.alloc(layout).unwrap(), first);
    }
}

#[test]
fn regions_of_lent_memory_are_as_good_as_new() {
    if LinuxPart::Removal.is_lacking() {
        return;
    }
    let arena = Arena::lent(&Heap);
    assert_eq!(arena.scope(), Scope::Shared);
    for align in [1, 1 << 16] {
        let region = arena.map(90_000, align).unwrap();
        assert_eq!(region.start().align_offset(align.max(page_size())), 0);
        assert!(region.len() >= 90_000 && holds(region.start(), region.len(), 0));
    }
    let refused = arena.map(isize::MAX as usize, 1).unwrap_err();
    assert!(matches!(refused, MemoryError::Reservation { .. }));
}

#[test]
fn a_full_shared_arena_says_so_and_recovers() {
    let arena = Arena::shared(1 << 20).unwrap();
    let region = arena.map(1 << 19, 1).unwrap();
    let error = arena.map(1 << 20, 1).unwrap_err();
    assert_eq!(error, MemoryError::Reservation { bytes: 1 << 20 });
    assert!(error.to_string().contains("reserve more"));
    assert!(arena.map(usize::MAX, 1).is_err());
    drop(region);
    assert!(arena.map(1 << 20, 1).is_ok());
}

#[test]
fn guards_leave_with_their_region() {
    for arena in arenas() {
        for kind in [GuardKind::probe_for(arena.scope()), GuardKind::Protect] {
            let region = arena.map(RESERVE / 4, 1).unwrap();
            // SAFETY: the region is fresh and this test's own.
            unsafe { install_guard(region.start(), page_size(), kind) }.unwrap();
            drop(region);
            let region = arena.map(RESERVE / 2, 1).unwrap();
            fill(region.start(), region.len(), 1);
        }
    }
}

#[test]
fn a_region_keeps_its_arena_alive() {
    for arena in arenas() {
        let region = arena.map(1, 1).unwrap();
        drop(arena);
        fill(region.start(), region.len(), 1);
        assert!(region.arena().map(1, 1).is_ok());
    }
}

#[test]
fn a_dropped_arena_returns_its_addresses() {
    for _ in 0..300 {
        let arena = Arena::private();
        let region = arena.map(1 << 40, 1).unwrap();
        arena.alloc(Layout::new::<u64>()).unwrap();
        drop((arena, region));
        drop(Arena::shared(1 << 40).unwrap());
    }
}

#[test]
fn a_forked_process_shares_a_shared_arena() {
    let arena = Arena::shared(RESERVE).unwrap();
    let region = arena.map(1, 1).unwrap();
    // SAFETY: the child writes one byte and leaves by `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            region.start().write(42);
            libc::_exit(0);
        }
        assert!(child > 0);
        assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
        assert_eq!(region.start().read(), 42);
    }
}
