//! A minimal fiber: a closure on a stack of its own, for tests of the switch.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

use std::cell::Cell;
use std::marker::PhantomData;

use daiko_context::stack::{Slab, StackClass};
use daiko_context::{FpControl, StackPointer, prepare, switch, switch_fp};
use daiko_sys::arena::Arena;
use daiko_sys::memory::GuardKind;

/// A closure that runs whenever it is resumed, until it leaves.
pub(crate) struct Fiber<'a> {
    inside: Box<Inside>,
    slab: Slab,
    _body: PhantomData<&'a ()>,
}

type Body = Box<dyn FnOnce(&Inside)>;

/// State that both sides of the switch share.
pub(crate) struct Inside {
    fiber: Cell<StackPointer>,
    resumer: Cell<StackPointer>,
    body: Cell<Option<Body>>,
    finished: Cell<bool>,
}

impl<'a> Fiber<'a> {
    pub(crate) fn new(body: impl FnOnce(&Inside) + 'a) -> Self {
        Self::with_class(StackClass::default(), body)
    }

    pub(crate) fn with_class(class: StackClass, body: impl FnOnce(&Inside) + 'a) -> Self {
        let slab = Slab::new(&Arena::private(), class, 1, GuardKind::probe()).unwrap();
        let body: Box<dyn FnOnce(&Inside) + 'a> = Box::new(body);
        // SAFETY: the body is dropped, finished or not, before 'a ends: it lies in the fiber, and
        // Drop insists that a started body is finished.
        let body: Body = unsafe { std::mem::transmute(body) };
        let inside = Box::new(Inside {
            fiber: Cell::new(StackPointer::NULL),
            resumer: Cell::new(StackPointer::NULL),
            body: Cell::new(Some(body)),
            finished: Cell::new(false),
        });
        let arg = (&raw const *inside).cast_mut().cast();
        // SAFETY: the top is aligned, and the stack is fresh and has the default size or the test's
        // size.
        inside.fiber.set(unsafe { prepare(slab.top(0), start, arg) });
        Self { inside, slab, _body: PhantomData }
    }

    pub(crate) fn resume(&mut self) {
        assert!(!self.inside.finished.get());
        // SAFETY: the fiber is suspended, its stack is mapped, and it is resumed only here.
        unsafe { switch(self.inside.resumer.as_ptr(), self.inside.fiber.get()) };
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.inside.finished.get()
    }
}

impl Drop for Fiber<'_> {
    fn drop(&mut self) {
        assert!(std::thread::panicking() || self.inside.finished.get(), "left unfinished");
    }
}

impl Inside {
    #[inline(never)]
    pub(crate) fn leave(&self) {
        // SAFETY: the resumer waits in `resume`; its stack is a thread's.
        unsafe { switch(self.fiber.as_ptr(), self.resumer.get()) };
    }

    #[inline(never)]
    pub(crate) fn leave_fp(&self, others: &FpControl) {
        // SAFETY: see `leave`.
        unsafe { switch_fp(self.fiber.as_ptr(), self.resumer.get(), others) };
    }
}

unsafe extern "C" fn start(inside: *mut u8) -> ! {
    // SAFETY: `Fiber::new` passes this pointer, which outlives the fiber.
    let inside = unsafe { &*inside.cast::<Inside>() };
    let body = inside.body.take().expect("a fiber starts once");
    body(inside);
    inside.finished.set(true);
    // SAFETY: `resume` refuses a finished fiber.
    unsafe { daiko_context::ends() };
    inside.leave();
    unreachable!("resumed after the end")
}

/// Lends a fiber to another thread.
pub(crate) struct Handed<'a, 'b>(pub(crate) &'a mut Fiber<'b>);

// SAFETY: the tests hand over by spawn and join, and bodies use no data of a thread.
unsafe impl Send for Handed<'_, '_> {}

impl Handed<'_, '_> {
    pub(crate) fn resume(self) {
        self.0.resume();
    }
}
