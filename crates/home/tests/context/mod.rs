//! Contexts that run with a block of their own on the calling thread, for tests.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use daiko_context::seat::Seat;
use daiko_context::stack::{Slab, StackClass};
use daiko_context::{StackPointer, prepare_own, switch, switch_own};
use daiko_home::{BlockKind, Blocks, ThreadLocalsError};
use daiko_sys::arena::Arena;
use daiko_sys::memory::{GuardKind, page_size};

/// The kinds of blocks of this processor.
pub(crate) const KINDS: &[BlockKind] = if cfg!(target_arch = "x86_64") {
    &[BlockKind::Light, BlockKind::Home]
} else {
    &[BlockKind::Home]
};

/// The kind that [`Blocks::get`] chooses.
pub(crate) const KIND: BlockKind = KINDS[0];

/// A stack with a block at its end, for one context after the other.
pub(crate) struct Stack {
    /// Keeps the memory.
    _slab: Slab,
    end: NonNull<u8>,
    blocks: Blocks,
}

/// A context, which runs whenever it is resumed.
pub(crate) struct Context<'s> {
    stack: &'s mut Stack,
    inside: Box<Inside>,
}

type Body = Box<dyn FnOnce(&Inside)>;

/// State that both sides of the switch share.
pub(crate) struct Inside {
    context: Cell<StackPointer>,
    resumer: Cell<StackPointer>,
    seat: Cell<Option<&'static Seat>>,
    body: Cell<Option<Body>>,
    finished: Cell<bool>,
    failed: Cell<bool>,
    end: NonNull<u8>,
    blocks: Blocks,
}

impl Stack {
    pub(crate) fn new(kind: BlockKind) -> Self {
        Self::at_line(kind, 256 << 10, 0)
    }

    /// Makes a stack of so many bytes from the begin of a page, but for these lines at its end.
    pub(crate) fn at_line(kind: BlockKind, bytes: usize, line: usize) -> Self {
        let class = StackClass::new(bytes + 64 * line, page_size()).unwrap();
        let slab = Slab::new(&Arena::private(), class, 1, GuardKind::probe()).unwrap();
        let blocks = Blocks::of(kind).unwrap();
        let end = NonNull::new(slab.top(0).wrapping_sub(64 * line)).unwrap();
        // SAFETY: the end of a fresh stack, which is aligned to a line.
        unsafe { blocks.build(end, slab.bottom(0)) }.unwrap();
        Stack { _slab: slab, end, blocks }
    }

    /// Starts a context with `body`.
    pub(crate) fn start(&mut self, body: impl FnOnce(&Inside) + 'static) -> Context<'_> {
        self.try_start(body).unwrap()
    }

    /// Starts a context with `body`, if its block can be had.
    pub(crate) fn try_start(
        &mut self,
        body: impl FnOnce(&Inside) + 'static,
    ) -> Result<Context<'_>, ThreadLocalsError> {
        let end = self.end;
        // SAFETY: `new` has built the block, and the stack is unused.
        unsafe { self.blocks.enter(end) }?;
        let inside = Box::new(Inside {
            context: Cell::new(StackPointer::NULL),
            resumer: Cell::new(StackPointer::NULL),
            seat: Cell::new(None),
            body: Cell::new(Some(Box::new(body))),
            finished: Cell::new(false),
            failed: Cell::new(false),
            end,
            blocks: self.blocks,
        });
        let top = self.blocks.start(end);
        let own = self.blocks.thread_pointer(end).addr();
        let arg = ptr::from_ref(&*inside).cast_mut().cast();
        // SAFETY: the stack below the block is unused.
        inside.context.set(unsafe { prepare_own(top, run, arg, own) });
        Ok(Context { stack: self, inside })
    }

    /// Runs `body` to its end.
    pub(crate) fn run(&mut self, body: impl FnOnce(&Inside) + 'static) {
        let mut context = self.start(body);
        let seat = Seat::take(ptr::from_ref(&0u8).cast()).unwrap();
        while !context.resume(seat) {}
        // SAFETY: taken above; the context has been left.
        unsafe { seat.leave() };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let end = self.end;
        // SAFETY: `new` has built it; contexts borrow this, and end before they are dropped.
        unsafe { self.blocks.destroy(end) };
    }
}

impl Context<'_> {
    /// Resumes the context on the calling thread's seat; returns true once it has ended.
    pub(crate) fn resume(&mut self, seat: &'static Seat) -> bool {
        assert!(!self.inside.finished.get());
        self.inside.seat.set(Some(seat));
        // SAFETY: the context is suspended, and its stack is mapped.
        unsafe { switch(self.inside.resumer.as_ptr(), self.inside.context.get()) };
        assert!(!self.inside.failed.get(), "the context has panicked");
        self.inside.finished.get()
    }
}

impl Context<'_> {
    /// Gives a context up that has not ended. Its stack may be dropped.
    pub(crate) fn forget(self) {
        self.inside.finished.set(true);
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        assert!(std::thread::panicking() || self.inside.finished.get(), "left unfinished");
        // SAFETY: `start` has entered it, and the context has ended.
        unsafe { self.stack.blocks.leave(self.stack.end) };
    }
}

impl Inside {
    /// Suspends the context.
    #[inline(never)]
    pub(crate) fn leave(&self) {
        let seat = self.seat.get().expect("resumed on a seat");
        let (own, lent) = (seat.thread_pointer(), seat.own_thread_pointer());
        // SAFETY: the resumer waits in `resume`, under its kernel thread's pointer.
        unsafe { switch_own(self.context.as_ptr(), self.resumer.get(), own, lent) };
    }
}

unsafe extern "C" fn run(inside: *mut u8) -> ! {
    // SAFETY: `start` passes this pointer, which outlives the context.
    let inside = unsafe { &*inside.cast::<Inside>() };
    let pointer = inside.blocks.thread_pointer(inside.end);
    // SAFETY: the context begins here, with that block.
    unsafe { inside.blocks.begin(pointer) };
    let body = inside.body.take().expect("a context starts once");
    inside.failed.set(panic::catch_unwind(AssertUnwindSafe(|| body(inside))).is_err());
    // SAFETY: as above.
    unsafe { inside.blocks.end(pointer) };
    inside.finished.set(true);
    inside.leave();
    unreachable!("resumed after the end")
}
