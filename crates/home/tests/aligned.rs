//! Thread-locals of the program that are aligned to more than a line, as counters are that share
//! none. A program of its own, since that moves all blocks of a process.

mod context;

use std::cell::Cell;
use std::ptr;

use context::{KINDS, Stack};
use daiko_home::Blocks;

#[repr(align(512))]
struct Aligned(Cell<u32>);

thread_local! {
    static ALIGNED: Aligned = const { Aligned(Cell::new(7)) };
}

#[test]
fn aligned_thread_locals_are_aligned_at_every_end_of_a_stack() {
    for &kind in KINDS {
        let [.., align, _] = Blocks::of(kind).unwrap().shape();
        assert!(align >= 512, "{kind:?}: {align}");
        for line in 0..=16 {
            let mut stack = Stack::at_line(kind, 256 << 10, line);
            for _ in 0..2 {
                stack.run(|me| {
                    let before = ALIGNED.with(|aligned| {
                        assert_eq!(ptr::from_ref(aligned).addr() % 512, 0);
                        aligned.0.replace(2)
                    });
                    assert_eq!(before, 7);
                    me.leave();
                    ALIGNED.with(|aligned| assert_eq!(aligned.0.get(), 2));
                });
            }
        }
    }
}

#[test]
fn a_block_takes_no_more_bytes_than_it_says() {
    for &kind in KINDS {
        let blocks = Blocks::of(kind).unwrap();
        let taken = |line: usize| {
            let end =
                ptr::NonNull::new(ptr::without_provenance_mut((1 << 20) + line * 64)).unwrap();
            end.addr().get() - blocks.start(end).addr()
        };
        let most = (0..64).map(taken).max().unwrap();
        assert!((most..most + 64).contains(&blocks.bytes()), "{kind:?}: {most}");
    }
}
