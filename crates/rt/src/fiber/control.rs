//! The control block: all that the runtime keeps of one fiber.

use std::cell::Cell;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering, fence};

use daiko_context::{StackPointer, prefetch_write};
use daiko_core::fiber::{
    Addressee, Completion, Course, Effect, Event, Letters, Mail, Owner, OwnerWord, Plain, Posted,
    RunState, Shared,
};
use daiko_core::list::Linked;
use daiko_core::place::{Class, PASSES};

use super::aside::Aside;
use super::cancel_scope::CancelScope;
use crate::process::{self, estate};
use crate::runtime::Shared as Runtime;
use crate::worker::{self, Wish, Worker};

/// Bits of [`ControlBlock::flags`].
pub mod flag {
    /// The fiber must unwind at its next suspension.
    pub const CANCEL: u32 = 1 << 31;
    /// A cancel or a timer, not its waker, ended the fiber's suspension.
    pub(crate) const INTERRUPTED: u32 = 1 << 30;
    /// When the fiber suspended last it was unwinding. It is then not cancelled, and a mover stays,
    /// as the count of panics is its thread's.
    pub(crate) const UNWINDING: u32 = 1 << 28;
    /// The worker of an unstarted fiber was chosen: it starts where its mail takes it.
    pub(crate) const PLACED: u32 = 1 << 29;
    /// Some `no_suspend` is under way: the low bits count the nesting.
    pub(crate) const NO_SUSPEND: u32 = (1 << 15) - 1;
    /// The fiber is in some cancel scope: it looks whether that is over wherever it suspends.
    pub(crate) const SCOPED: u32 = 1 << 15;
    /// The cancel has been raised: if the thread panics, then for that.
    pub(crate) const RAISED: u32 = 1 << 27;
    /// The fiber is suspended in its unwinding, and its worker counts it.
    pub(crate) const COUNTED: u32 = 1 << 26;
    /// Some `cancel::shield` is under way: these bits count the nesting.
    pub const SHIELD: u32 = ((1 << 10) - 1) << 16;
}

/// Bits of the `kind` of a [`ControlBlock`], fixed at spawn.
pub mod kind {
    /// May change worker after it started.
    pub(crate) const MOVER: u8 = 1;
}

/// Parts of [`ControlBlock::class`].
mod class {
    /// What it does, a `Class`.
    pub(super) const CLASS: u8 = 3;
    /// How often it was passed over in its queue.
    pub(super) const PASSED: u8 = 7 << 2;
}

/// Bit of [`ControlBlock::refs`]: a handle that sent postcards has been dropped, so that the last
/// one has the fiber freed behind them.
const POSTCARDS: u32 = 1 << 31;

/// Bytes of a name; the rest is cut off.
const MAX_NAME: usize = 256;

/// The header of data that a client keeps for a fiber, such as its locals.
pub struct FiberData {
    /// Drops the data of the fiber, the caller, which has come to its end.
    pub end: fn(&ControlBlock),
}

/// What the runtime knows of a fiber's closure and result; one static per type of closure.
pub(crate) struct Vtable {
    /// Runs the closure in the packet and leaves the result there.
    pub(crate) run: unsafe fn(NonNull<u8>),
    /// Drops the closure in the packet without running it and leaves "cancelled" there.
    pub(crate) cancel: unsafe fn(NonNull<u8>),
    /// Drops the result in the packet.
    pub(crate) drop_result: unsafe fn(NonNull<u8>),
    /// Of a scoped fiber: takes leave of its scope, once the result is nobody's or the handle's.
    pub(crate) leave: Option<unsafe fn(NonNull<u8>)>,
    /// What becomes of the fiber if it is lost.
    pub(crate) lost: Lost,
}

/// What becomes of a fiber that is lost.
#[derive(Clone, Copy)]
pub(crate) enum Lost {
    /// It ends without a result.
    Ends,
    /// So does a scoped one, whose packet is told before.
    Tells(unsafe fn(NonNull<u8>)),
    /// It begins anew: its closure stays in the packet as long as it is in its own code.
    BeginsAnew,
}

/// One fiber, at the top of its own stack, so that a hop to it touches one page.
///
/// The memory is typed for good: a control block is reused, never unmapped while its runtime
/// lives. Two lines: the first is all that a hop touches.
#[repr(C, align(64))]
pub struct ControlBlock {
    /// Where the fiber left off. Written by the worker that runs it, read by the next one.
    pub(crate) sp: Cell<StackPointer>,
    /// Who owns it. Any thread.
    pub owner: OwnerWord<Worker>,
    /// Whether it runs. A pinned fiber's: its worker. A mover's: any thread.
    pub state: RunState,
    /// Letters on their way. Any thread.
    pub(crate) mail: Mail,
    /// `flag` bits. Only the worker that runs it, or its agent; before the start, who has it.
    pub flags: Cell<u32>,
    /// `kind` bits. Written at spawn.
    pub(crate) kind: Cell<u8>,
    /// `class` parts. Written by who runs it, or has it in his queue alone; read by any thread.
    class: AtomicU8,
    /// Of a mover; in builds with debug assertions, of every fiber. Written by who runs it; read by him, and once that
    /// process has died.
    pub(crate) course: Course,
    /// The one queue that it is in. Whoever has it there.
    link: AtomicPtr<ControlBlock>,
    /// The one inbox that it is in. Whoever has it there.
    mail_link: AtomicPtr<ControlBlock>,
    /// Its closure's functions. Written at spawn.
    pub(crate) vtable: Cell<&'static Vtable>,
    /// The closure, later the result. Written at spawn.
    pub(crate) packet: Cell<NonNull<u8>>,

    /// Its end. The fiber and the one join handle.
    pub(crate) completion: Completion,
    /// Handles, and one for the fiber itself until it has left its stack; POSTCARDS. Any thread.
    refs: AtomicU32,
    /// Length of the name, which lies right below the block, and one; 0: none. Written at spawn.
    name_end: Cell<u16>,
    /// Size class of the stack. Fixed when the memory becomes a control block.
    pub(crate) size_class: u8,
    /// Where it was spawned. Written at spawn.
    pub(crate) spawned_at: Cell<&'static Location<'static>>,
    /// Bytes of the packet, if it is not on the stack; else 0.
    pub(crate) outside: Cell<usize>,
    /// The innermost cancel scope that it is in; null: none. Only the fiber.
    pub(crate) scopes: Cell<*const CancelScope>,
    /// The runtime. Fixed when the memory becomes a control block.
    pub runtime: NonNull<Runtime>,
    /// Its locals; null if it has none, and when it has ended. The fiber.
    pub locals: Cell<*mut FiberData>,
    /// What it waits for, or its estate. Who may touch it says `Aside`.
    pub(crate) aside: Aside,
}

const _: () = assert!(size_of::<ControlBlock>() == 128);
const _: () = assert!(std::mem::offset_of!(ControlBlock, completion) == 64);
const _: () = assert!(PASSES <= class::PASSED >> class::PASSED.trailing_zeros());

// SAFETY: each field says who may touch it; what any thread may touch is atomic.
unsafe impl Sync for ControlBlock {}

// SAFETY: `link` is one field, and only lists of core write it.
unsafe impl Linked for ControlBlock {
    unsafe fn link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: `this` is valid, by the contract of `link`.
        unsafe { &(*this.as_ptr()).link }
    }
}

// SAFETY: `mail_link` is one field, and only core's inbox writes it.
unsafe impl Addressee for ControlBlock {
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: `this` is valid, by the contract of `mail_link`.
        unsafe { &(*this.as_ptr()).mail_link }
    }

    #[inline]
    fn prefetch(this: NonNull<Self>) {
        prefetch_write(this.as_ptr().cast());
    }
}

unsafe fn no_closure(_: NonNull<u8>) {}

/// The functions of a control block that no fiber uses.
static UNUSED: Vtable = Vtable {
    run: no_closure,
    cancel: no_closure,
    drop_result: no_closure,
    leave: None,
    lost: Lost::Ends,
};

impl ControlBlock {
    /// A block that no fiber uses yet.
    pub(crate) fn unused(runtime: NonNull<Runtime>, size_class: u8) -> Self {
        ControlBlock {
            sp: Cell::new(StackPointer::NULL),
            owner: OwnerWord::new(),
            state: RunState::new(),
            mail: Mail::new(),
            flags: Cell::new(0),
            kind: Cell::new(0),
            class: AtomicU8::new(0),
            course: Course::new(),
            link: AtomicPtr::new(ptr::null_mut()),
            mail_link: AtomicPtr::new(ptr::null_mut()),
            vtable: Cell::new(&UNUSED),
            packet: Cell::new(NonNull::dangling()),
            completion: Completion::new(),
            refs: AtomicU32::new(0),
            name_end: Cell::new(0),
            size_class,
            spawned_at: Cell::new(Location::caller()),
            outside: Cell::new(0),
            scopes: Cell::new(ptr::null()),
            runtime,
            locals: Cell::new(ptr::null_mut()),
            aside: Aside::new(),
        }
    }

    /// Makes the words those of a new fiber: unstarted, with one handle beside itself.
    pub(crate) fn renew(&self, kind: u8, spawned_at: &'static Location<'static>) {
        self.owner.reset();
        self.completion.reset();
        self.flags.set(0);
        self.kind.set(kind);
        self.class.store(0, Ordering::Relaxed);
        self.course.reset();
        self.spawned_at.set(spawned_at);
        if process::is_active() {
            estate::clear(self);
        }
        // Release: pairs with the Acquire in `is_used`, which then sees the owner word reset.
        self.refs.store(2, Ordering::Release);
    }

    /// Puts `name` below the block, where it is until the block is freed; its beginning.
    ///
    /// # Safety
    ///
    /// The stack below the block is unused, and has room for it.
    pub(crate) unsafe fn set_name(&self, name: &str) -> *mut u8 {
        let name = &name.as_bytes()[..name.floor_char_boundary(MAX_NAME)];
        let start = self.below(name.len());
        // SAFETY: unused and with room, by this function's contract.
        unsafe { start.copy_from_nonoverlapping(name.as_ptr(), name.len()) };
        self.name_end.set(name.len() as u16 + 1);
        start
    }

    /// The name, as given at spawn.
    pub(crate) fn name(&self) -> Option<&str> {
        let len = self.name_end.get().checked_sub(1)? as usize;
        // SAFETY: `set_name` put so many bytes of a `str` there, for as long as the caller holds the block.
        Some(unsafe {
            let bytes = std::slice::from_raw_parts(self.below(len), len);
            std::str::from_utf8_unchecked(bytes)
        })
    }

    /// The lowest byte of the name, or of the block if it has none.
    pub(crate) fn name_start(&self) -> *mut u8 {
        self.below(self.name_end.get().saturating_sub(1) as usize)
    }

    /// So many bytes below the block, which lies at the top of a stack.
    fn below(&self, bytes: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(ptr::from_ref(self).expose_provenance() - bytes)
    }

    /// Whether another worker may take it, now that it is active and not running.
    #[inline]
    pub(crate) fn may_move(&self) -> bool {
        self.is_mover() && self.flags.get() & flag::UNWINDING == 0
    }

    /// Whether the course is kept.
    #[inline(always)]
    pub(crate) fn has_course(&self) -> bool {
        cfg!(debug_assertions) || self.is_mover()
    }

    #[inline]
    pub fn is_mover(&self) -> bool {
        self.kind.get() & kind::MOVER != 0
    }

    /// What it does. Any thread may ask, and may be told what it did a moment ago.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        // Relaxed: a hint.
        Class::from_bits(self.class.load(Ordering::Relaxed) & class::CLASS)
    }

    /// Says what it does. Only who runs it.
    pub(crate) fn set_class(&self, class: Class) {
        self.change_class(class::CLASS, class as u8);
    }

    /// How often it was passed over in its queue.
    #[inline]
    pub(crate) fn passed(&self) -> u8 {
        (self.class.load(Ordering::Relaxed) & class::PASSED) >> class::PASSED.trailing_zeros()
    }

    /// Only who has it in his queue alone, or has taken it out.
    #[inline]
    pub(crate) fn set_passed(&self, times: u8) {
        self.change_class(class::PASSED, times);
    }

    /// No read-modify-write: one thread at a time writes.
    #[inline]
    fn change_class(&self, part: u8, value: u8) {
        let others = self.class.load(Ordering::Relaxed) & !part;
        self.class.store(others | value << part.trailing_zeros(), Ordering::Relaxed);
    }

    /// Whether a fiber uses the block: it has a reference.
    pub(crate) fn is_used(&self) -> bool {
        // Acquire: pairs with the Release in `renew`.
        self.refs.load(Ordering::Acquire) != 0
    }

    #[inline]
    pub(crate) fn retain(&self) {
        // Relaxed: whoever makes a new handle has one.
        let before = self.refs.fetch_add(1, Ordering::Relaxed);
        assert!(before & !POSTCARDS < u32::MAX / 4, "too many handles of one fiber");
    }

    /// Gives the reference of a handle back that may have sent postcards.
    #[cold]
    pub(crate) fn release_behind_postcards(&self) {
        // Relaxed: published by the release.
        self.refs.fetch_or(POSTCARDS, Ordering::Relaxed);
        self.release();
    }

    /// Gives one reference back; the last one frees the block.
    #[inline]
    pub(crate) fn release(&self) {
        // Acquire: if we are the last, pairs with the Release of those before; nobody else can
        // make a new handle then, so that the RMW is not needed.
        let mut refs = self.refs.load(Ordering::Acquire);
        if refs & !POSTCARDS != 1 {
            // Release: pairs with the Acquire above or below of whoever is last.
            refs = self.refs.fetch_sub(1, Ordering::Release);
            if refs & !POSTCARDS != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        self.refs.store(0, Ordering::Relaxed);
        if refs & POSTCARDS != 0
            && let Owner::Finished(home) = self.owner.load()
        {
            // SAFETY: workers live as long as their runtime, and that as long as its blocks.
            return unsafe { &*home }.free_behind_postcards(self);
        }
        self.free_behind_mail();
    }

    /// Nobody has a handle, so no new letter comes; one that is under way keeps the block in an
    /// inbox, whose owner frees it then.
    #[inline]
    pub(crate) fn free_behind_mail(&self) {
        if self.mail.is_empty() || self.mail.post(Letters::FREE) == Posted::Push {
            self.free_now();
        }
    }

    /// Gives the memory of a fiber back that was never launched.
    pub(crate) fn discard(&self) {
        self.refs.store(0, Ordering::Relaxed);
        self.free_now();
    }

    /// Gives the memory back. It must be in no list.
    pub(crate) fn free_now(&self) {
        let _ = self.mail.collect();
        // SAFETY: the runtime outlives its control blocks.
        let runtime = unsafe { self.runtime.as_ref() };
        // The monitor copies a name: so short that it is waited for.
        while runtime.glance.is_at(self, &runtime.barriers) {
            std::thread::yield_now();
        }
        self.name_end.set(0);
        runtime.pool.put(NonNull::from(self));
    }

    /// Ends the wait that the caller has claimed, from any thread; `here` is its worker.
    #[inline]
    pub fn wake(&self, here: Option<&Worker>) {
        if !self.deliver_local(here, Event::Wake) {
            let _ = worker::send(here, self, Wish::WAKE);
        }
    }

    /// Delivers `event` if `current` is the fiber's worker; false if not.
    // Always: by itself it has to ask which event it is, some 25 instructions more for a switch by a condition.
    #[inline(always)]
    pub fn deliver_local(&self, current: Option<&Worker>, event: Event) -> bool {
        let Some(worker) = current.filter(|&worker| self.owner.is(worker)) else {
            return false;
        };
        if self.apply(event) == Effect::Enqueue && !worker.sent_home(self) {
            worker.make_next(self);
        }
        true
    }

    /// Applies `event` in the fiber's mode. A pinned fiber's: only its worker.
    #[inline]
    pub(crate) fn apply(&self, event: Event) -> Effect {
        process::assert_in_call();
        let effect = if self.is_mover() {
            self.state.apply::<Shared>(event)
        } else {
            self.state.apply::<Plain>(event)
        };
        match event {
            Event::Cancel => self.was_cancelled(effect),
            // Whoever made it active has it alone.
            Event::Interrupt if effect == Effect::Enqueue => self.add_flags(flag::INTERRUPTED),
            _ => {}
        }
        effect
    }
}

impl ControlBlock {
    /// Notes what a cancel did: it ended a suspension, or a pinned fiber's next one will not last.
    ///
    /// A mover that is active may run elsewhere, so that its flags are not ours: it finds the
    /// cancel in its run state when it suspends.
    #[cold]
    fn was_cancelled(&self, effect: Effect) {
        match effect {
            Effect::Enqueue => self.add_flags(flag::CANCEL | flag::INTERRUPTED),
            _ if self.is_mover() => {}
            _ => self.add_flags(flag::CANCEL),
        }
    }

    /// Has the fiber unwind at its next suspension, or not start at all. Only who has it alone.
    pub(crate) fn must_unwind(&self) {
        self.add_flags(flag::CANCEL);
    }

    /// Notes what the fiber, which had wanted to suspend, has found in its run state instead.
    /// Only who has it alone.
    #[cold]
    pub(crate) fn found(&self, come: Effect) {
        match come {
            Effect::Cancelled => self.add_flags(flag::CANCEL | flag::INTERRUPTED),
            Effect::Interrupted => self.add_flags(flag::INTERRUPTED),
            _proceed => {}
        }
    }

    /// Runs `body`, counted among those that nest under `count`, a mask of flags. Only the fiber.
    ///
    /// # Panics
    ///
    /// If so many are under way that there is no room for one more: `what` names them.
    pub fn nested<R>(&self, count: u32, what: &str, body: impl FnOnce() -> R) -> R {
        struct Leave<'f>(&'f ControlBlock, u32);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.flags.update(|flags| flags - self.1);
            }
        }
        let one = count & count.wrapping_neg();
        assert!(self.flags.get() & count != count, "daiko: {what} nested too deep");
        self.flags.update(|flags| flags + one);
        let _leave = Leave(self, one);
        body()
    }

    pub(crate) fn add_flags(&self, flags: u32) {
        self.flags.set(self.flags.get() | flags);
    }
}
