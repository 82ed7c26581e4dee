//! The heap that all processes share, and the part of it that a killed process loses.

use std::alloc::{self, Layout};
use std::array;
use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use daiko::process::{SharedHeap, is_shared};

use super::{end, processes};
use crate::End;

super::cases! {
    a_killed_process_loses_one_object_at_most End::Well,
    allocations_of_a_forked_process_can_be_freed End::Well,
    objects_are_aligned_as_they_ask End::Well,
    a_heap_that_is_full_says_so End::Well,
    a_process_has_a_name_of_its_own End::Well,
    only_objects_in_the_heap_are_shared End::Well,
    a_runtime_gives_its_stacks_back End::Well,
    a_double_free_is_stopped End::Abort("an object is freed that is not allocated"),
}

/// The minimum number of bytes of a stack.
const STACK: usize = 60 << 10;
const KILLS: u32 = 200;

/// The sizes of objects that a process has at a time: slabs of few pages and of many, and pages of
/// their own.
const SIZES: [usize; 12] =
    [16, 64, 64, 100, 1000, 3000, 5000, 20_000, 33_000, 100_000, 200_000, 300_000];
/// The bytes that the largest object takes.
const MOST: usize = SIZES[SIZES.len() - 1].next_multiple_of(1024);

/// The objects of a process, as other processes see them.
struct Board {
    objects: [AtomicPtr<u8>; SIZES.len()],
    rounds: AtomicUsize,
    user: AtomicU32,
}

impl Board {
    fn new() -> &'static Self {
        Box::leak(Box::new(Board {
            objects: array::from_fn(|_| AtomicPtr::default()),
            rounds: AtomicUsize::new(0),
            user: AtomicU32::new(0),
        }))
    }

    fn layout(slot: usize) -> Layout {
        Layout::from_size_align(SIZES[slot], 8).unwrap()
    }

    /// Frees an object after no other process knows of it.
    fn free(&self, slot: usize) {
        let object = self.objects[slot].swap(ptr::null_mut(), Ordering::SeqCst);
        if !object.is_null() {
            // SAFETY: allocated so; it was taken off the board, so this happens once.
            unsafe {
                assert_eq!([*object, *object.add(SIZES[slot] - 1)], [slot as u8; 2]);
                alloc::dealloc(object, Self::layout(slot));
            }
        }
    }

    fn replace(&self, slot: usize) {
        self.free(slot);
        // SAFETY: not of size 0; written inside.
        unsafe {
            let object = alloc::alloc(Self::layout(slot));
            assert!(!object.is_null());
            object.write(slot as u8);
            object.add(SIZES[slot] - 1).write(slot as u8);
            self.objects[slot].store(object, Ordering::SeqCst);
        }
        self.rounds.fetch_add(1, Ordering::SeqCst);
    }

    fn clear(&self) {
        (0..SIZES.len()).for_each(|slot| self.free(slot));
    }

    fn go_on_for_ever(&self) -> ! {
        self.user.store(SharedHeap::user().unwrap(), Ordering::SeqCst);
        loop {
            (0..SIZES.len()).for_each(|slot| self.replace(slot));
        }
    }
}

/// Forks a child that runs `body`, and exits.
fn fork(body: impl FnOnce()) -> i32 {
    // SAFETY: there is one thread; the child leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        // SAFETY: takes a plain number.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0);
    child
}

fn wait(child: i32) -> i32 {
    let mut status = -1;
    // SAFETY: the status is a live local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Works beside a child, which is killed at some point; returns the user number that the child had.
fn kill_one(board: &'static Board, own: &Board, after: usize) -> u32 {
    let rounds = board.rounds.load(Ordering::SeqCst);
    let child = fork(|| board.go_on_for_ever());
    while board.rounds.load(Ordering::SeqCst) < rounds + 1 + after % 50 {
        (0..SIZES.len()).for_each(|slot| own.replace(slot));
        std::thread::yield_now();
    }
    (0..after % 500).for_each(|_| own.replace(after % 4));
    // SAFETY: the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    wait(child);
    board.user.load(Ordering::SeqCst)
}

fn a_killed_process_loses_one_object_at_most() {
    let (theirs, ours) = (Board::new(), Board::new());
    let mut before = SharedHeap::stats().unwrap();
    assert_eq!(before.in_flight, 0);
    let mut swept = 0;
    for kill in 0..KILLS {
        let dead = kill_one(theirs, ours, kill as usize * 7919);
        (0..SIZES.len()).for_each(|slot| ours.replace(slot));
        let in_flight = SharedHeap::stats().unwrap().in_flight;
        assert!(in_flight <= MOST, "{in_flight}");
        // SAFETY: it was waited for.
        assert_eq!(unsafe { SharedHeap::sweep(dead) }, in_flight);
        assert_eq!(SharedHeap::stats().unwrap().in_flight, 0);
        swept += u32::from(in_flight > 0);
        theirs.clear();
        ours.clear();
        let now = SharedHeap::stats().unwrap();
        assert!((before.in_use..=before.in_use + MOST).contains(&now.in_use));
        before = now;
    }
    assert!(swept > 0, "none was killed where there is something to sweep");
}

fn allocations_of_a_forked_process_can_be_freed() {
    let board = Board::new();
    let before = SharedHeap::stats().unwrap();
    assert_eq!(wait(fork(|| (0..SIZES.len()).for_each(|slot| board.replace(slot)))), 0);
    let meanwhile = SharedHeap::stats().unwrap();
    assert!(meanwhile.in_use - before.in_use >= SIZES.iter().sum());
    assert!(before.free - meanwhile.free >= SIZES.iter().sum());
    board.clear();
    assert_eq!(SharedHeap::stats().unwrap().in_use, before.in_use);
}

fn objects_are_aligned_as_they_ask() {
    let before = SharedHeap::stats().unwrap();
    for (log, size) in (0..22).flat_map(|log| [1, 100, 5000, 70_000].map(|size| (log, size))) {
        let layout = Layout::from_size_align(size, 1 << log).unwrap();
        // SAFETY: not of size 0; written inside, and freed once.
        unsafe {
            let object = NonNull::new(alloc::alloc(layout)).unwrap();
            assert!(object.addr().get().is_multiple_of(layout.align()));
            object.write_bytes(7, size);
            alloc::dealloc(object.as_ptr(), layout);
        }
    }
    assert_eq!(SharedHeap::stats().unwrap().in_use, before.in_use);
}

fn a_heap_that_is_full_says_so() {
    for size in [5 << 30, 1 << 62, isize::MAX as usize - 7] {
        // SAFETY: not of size 0.
        let object = unsafe { alloc::alloc(Layout::from_size_align(size, 8).unwrap()) };
        // The value is used, so that the compiler does not remove the allocation.
        assert!(black_box(object).is_null());
    }
    let kept: Vec<_> = (0..100).map(|_| room_for(100 << 20)).collect();
    let had = kept.iter().flatten().count();
    assert!((30..=40).contains(&had), "{had} of 100 MiB each in 4 GiB");
    drop(kept);
    drop(Box::new([7_u8; 100]));
}

fn room_for(bytes: usize) -> Option<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).ok().map(|()| room)
}

fn a_process_has_a_name_of_its_own() {
    let board = Board::new();
    let own = SharedHeap::user().unwrap();
    assert_eq!(wait(fork(|| board.user.store(SharedHeap::user().unwrap(), Ordering::SeqCst))), 0);
    assert_ne!(board.user.load(Ordering::SeqCst), 0);
    assert_ne!(board.user.load(Ordering::SeqCst), own);
    let theirs = std::thread::spawn(|| SharedHeap::user().unwrap());
    assert_eq!(theirs.join().unwrap(), own, "threads die together");
}

fn only_objects_in_the_heap_are_shared() {
    static OWN: u8 = 0;
    let local = 0_u8;
    assert!(is_shared(&*Box::new(7)) && is_shared(vec![0_u8; 1 << 20].as_slice()));
    assert!(!is_shared(&OWN) && !is_shared(&local));
}

fn a_runtime_gives_its_stacks_back() {
    let run = || {
        let runtime = processes(2).build().unwrap();
        let stacks = runtime.run(|| {
            let before = SharedHeap::stats().unwrap().in_use;
            let parked: Vec<_> = (0..200).map(|_| daiko::spawn(daiko::park)).collect();
            let now = SharedHeap::stats().unwrap().in_use;
            for fiber in parked {
                fiber.fiber().unpark();
                fiber.join().unwrap();
            }
            now - before
        });
        end(runtime);
        (stacks, SharedHeap::stats().unwrap())
    };
    let (stacks, after_one) = run();
    assert!(stacks >= 200 * STACK, "{stacks}");
    let (_, after_two) = run();
    assert_eq!(after_two.in_flight, 0);
    // Memory of a worker itself goes with its process.
    assert!(after_two.in_use < after_one.in_use + STACK, "{after_one:?}, {after_two:?}");
}

fn a_double_free_is_stopped() {
    let layout = Layout::new::<[u64; 9]>();
    // SAFETY: not of size 0; the heap has to find the second free, and stops.
    unsafe {
        // Keeps the compiler from removing all three calls.
        let object = black_box(alloc::alloc(layout));
        alloc::dealloc(object, layout);
        alloc::dealloc(black_box(object), layout);
    }
}
