//! The control block: all state that the runtime keeps of one fiber.

use std::cell::Cell;
use std::panic::Location;
use std::ptr::{self, NonNull};

use daiko_context::{StackPointer, prefetch_write};
use daiko_core::fiber::{
    Addressee, Completion, Effect, Event, ExecMode, Mail, Messages, Owner, OwnerWord, Plain,
    Posted, RunState, Shared,
};
use daiko_core::list::Linked;
use daiko_core::place::{Class, PASSES};
use daiko_sys::signal;

use super::cancelled::CancelScope;
use super::union_word::UnionWord;
use crate::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering, fence};
use crate::process;
use crate::runtime::Shared as Runtime;
use crate::worker::Worker;

/// Bits of [`ControlBlock::flags`].
pub mod flag {
    /// The fiber must unwind at its next suspension.
    pub const CANCEL: u32 = 1 << 31;
    /// A cancel or a timer, not its waker, ended the fiber's suspension.
    pub(crate) const INTERRUPTED: u32 = 1 << 30;
    /// The fiber was unwinding when it suspended last. It is then not cancelled, and a migratable
    /// fiber stays on its worker, as the count of panics belongs to the thread.
    pub(crate) const UNWINDING: u32 = 1 << 28;
    /// The worker of an unstarted fiber was chosen: it starts where its message takes it.
    pub(crate) const PLACED: u32 = 1 << 29;
    /// A `no_suspend` is under way: the low bits count the nesting.
    pub(crate) const NO_SUSPEND: u32 = (1 << 15) - 1;
    /// The fiber is in a cancel scope: it looks at each suspension whether the scope has ended.
    pub(crate) const SCOPED: u32 = 1 << 15;
    /// The cancel has been raised: if the thread panics, then because of it.
    pub(crate) const RAISED: u32 = 1 << 27;
    /// The fiber is suspended while it unwinds, and its worker counts it.
    pub(crate) const COUNTED: u32 = 1 << 26;
    /// A `cancel::shield` is under way: these bits count the nesting.
    pub const SHIELD: u32 = ((1 << 10) - 1) << 16;
}

/// Bits of the `kind` of a [`ControlBlock`], fixed at spawn.
pub mod kind {
    /// May change worker after it started.
    pub(crate) const MIGRATABLE: u8 = 1;
}

/// Parts of [`ControlBlock::class`].
mod class {
    /// The fiber's `Class`.
    pub(super) const CLASS: u8 = 3;
    /// Number of times it was passed over in its queue.
    pub(super) const PASSED: u8 = 7 << 2;
}

/// Bit of [`ControlBlock::refs`]: a handle that sent inline messages has been dropped, so the fiber
/// has to be freed after them.
const INLINE_MESSAGES: u32 = 1 << 31;

/// The most references. So many more would not reach the bit above, so that each thread may add one
/// before it looks.
const MOST_REFS: u32 = 1 << 30;

/// Aborts the process. A panic could be caught, and the reference that was added would stay.
#[cold]
#[inline(never)]
fn too_many_handles() -> ! {
    let text = "daiko: a fiber has 2^30 handles; drop them, as mem::forget leaves each counted\n";
    signal::write_stderr(&[text.as_bytes()]);
    signal::abort()
}

/// Maximum bytes of a name; the rest is cut off.
const MAX_NAME: usize = 256;

/// The header of data that a client keeps for a fiber, such as its locals.
pub struct FiberData {
    /// Drops the data of the fiber, the caller, which has come to its end.
    pub end: fn(&ControlBlock),
}

/// The type-erased functions of a fiber's closure and result; one static per type of closure.
pub(crate) struct Vtable {
    /// Runs the closure in the packet and leaves the result there.
    pub(crate) run: unsafe fn(NonNull<u8>),
    /// Drops the closure in the packet without running it and leaves "cancelled" there.
    pub(crate) cancel: unsafe fn(NonNull<u8>),
    /// Drops the result in the packet.
    pub(crate) drop_result: unsafe fn(NonNull<u8>),
    /// Leaves the scope of a scoped fiber, once the result has been dropped, or belongs to the
    /// handle.
    pub(crate) leave: Option<unsafe fn(NonNull<u8>)>,
    /// The fate of the fiber if it is lost.
    pub(crate) lost: Lost,
}

/// The fate of a fiber that is lost.
#[derive(Clone, Copy)]
pub(crate) enum Lost {
    /// It ends without a result.
    Ends,
    /// It ends without a result, after the function has informed its packet. For a scoped fiber.
    Tells(unsafe fn(NonNull<u8>)),
    /// It begins anew: its closure stays in the packet as long as the fiber is in user code.
    BeginsAnew,
}

/// One fiber, at the top of its own stack, so that a context switch to it touches one page.
///
/// The memory is typed for good: a control block is reused, and never unmapped while its runtime
/// lives. It has two lines; a context switch touches only the first.
#[repr(C, align(64))]
pub struct ControlBlock {
    /// The stack pointer at its last switch. Written by the worker that runs it, read by the next.
    pub(crate) sp: Cell<StackPointer>,
    /// The owner word. Any thread.
    pub owner: OwnerWord<Worker>,
    /// The run state. Pinned fiber: its worker. Migratable fiber: any thread.
    pub state: RunState,
    /// Messages on their way. Any thread.
    pub(crate) mail: Mail,
    /// `flag` bits. Only the worker that runs it, or its agent; before the start, the thread that
    /// has it.
    pub flags: Cell<u32>,
    /// `kind` bits. Written at spawn.
    pub(crate) kind: Cell<u8>,
    /// `class` parts. Written by the worker that runs it, or has it in its queue alone; read by any
    /// thread.
    class: AtomicU8,
    /// The execution mode of a migratable fiber; with debug assertions, of every fiber. Written and
    /// read by the worker that runs it; read by the successor once that process has died.
    pub(crate) exec_mode: ExecMode,
    /// Link of the one queue that it is in. The thread that has it there.
    link: AtomicPtr<ControlBlock>,
    /// Link of the one inbox that it is in. The thread that has it there.
    mail_link: AtomicPtr<ControlBlock>,
    /// The functions of its closure. Written at spawn.
    pub(crate) vtable: Cell<&'static Vtable>,
    /// The closure, later the result. Written at spawn.
    pub(crate) packet: Cell<NonNull<u8>>,

    /// Its end. The fiber and the one join handle.
    pub(crate) completion: Completion,
    /// Number of handles, plus one for the fiber itself until it has left its stack;
    /// INLINE_MESSAGES. Any thread.
    refs: AtomicU32,
    /// Length + 1 of the name, which lies right below the block; 0: none. Written at spawn.
    name_end: Cell<u16>,
    /// Size class of the stack. Fixed when the memory becomes a control block.
    pub(crate) size_class: u8,
    /// The source location that spawned it. Written at spawn.
    pub(crate) spawned_at: Cell<&'static Location<'static>>,
    /// Bytes of the packet, if it is not on the stack; else 0.
    pub(crate) outside: Cell<usize>,
    /// The innermost cancel scope that it is in; null: none. Only the fiber.
    pub(crate) scopes: Cell<*const CancelScope>,
    /// The runtime. Fixed when the memory becomes a control block.
    pub runtime: NonNull<Runtime>,
    /// Its locals; null if it has none, and when it has ended. The fiber.
    pub locals: Cell<*mut FiberData>,
    /// The target of its wait, or its robust list. `UnionWord` says which threads may touch it.
    pub(crate) union_word: UnionWord,
}

const _: () = assert!(size_of::<ControlBlock>() == 128);
const _: () = assert!(std::mem::offset_of!(ControlBlock, completion) == 64);
const _: () = assert!(PASSES <= class::PASSED >> class::PASSED.trailing_zeros());

// SAFETY: each field says which threads may touch it; fields for any thread are atomic.
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
    /// Creates a block that no fiber uses yet.
    pub(crate) fn unused(runtime: NonNull<Runtime>, size_class: u8) -> Self {
        ControlBlock {
            sp: Cell::new(StackPointer::NULL),
            owner: OwnerWord::new(),
            state: RunState::new(),
            mail: Mail::new(),
            flags: Cell::new(0),
            kind: Cell::new(0),
            class: AtomicU8::new(0),
            exec_mode: ExecMode::new(),
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
            union_word: UnionWord::new(),
        }
    }

    /// Resets the words for a new fiber: unstarted, with one handle beside its own reference.
    pub(crate) fn renew(&self, kind: u8, spawned_at: &'static Location<'static>) {
        self.owner.reset();
        self.completion.reset();
        self.flags.set(0);
        self.kind.set(kind);
        self.class.store(0, Ordering::Relaxed);
        self.exec_mode.reset();
        self.spawned_at.set(spawned_at);
        if process::is_active()
            && let Some(mut list) = self.union_word.robust_list()
        {
            // SAFETY: the block keeps it as long as the runtime; no fiber uses the block at this
            // time.
            unsafe { list.as_mut() }.clear();
        }
        // Release: pairs with the Acquire in `is_used`: a reader that sees the references sees the
        // owner word reset.
        self.refs.store(2, Ordering::Release);
    }

    /// Puts `name` below the block, where it is until the block is freed; returns its first byte.
    ///
    /// # Safety
    ///
    /// The stack below the block is unused, and has room for the name.
    pub(crate) unsafe fn set_name(&self, name: &str) -> *mut u8 {
        let name = &name.as_bytes()[..name.floor_char_boundary(MAX_NAME)];
        let start = self.below(name.len());
        // SAFETY: unused and with room, by this function's contract.
        unsafe { start.copy_from_nonoverlapping(name.as_ptr(), name.len()) };
        self.name_end.set(name.len() as u16 + 1);
        start
    }

    /// Returns the name given at spawn.
    pub(crate) fn name(&self) -> Option<&str> {
        let len = self.name_end.get().checked_sub(1)? as usize;
        // SAFETY: `set_name` put these bytes of a `str` there, for as long as the caller holds the
        // block.
        Some(unsafe {
            let bytes = std::slice::from_raw_parts(self.below(len), len);
            std::str::from_utf8_unchecked(bytes)
        })
    }

    /// Returns the lowest byte of the name, or of the block if it has none.
    pub(crate) fn name_start(&self) -> *mut u8 {
        self.below(self.name_end.get().saturating_sub(1) as usize)
    }

    /// Returns the address `bytes` below the block, which lies at the top of a stack.
    fn below(&self, bytes: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(ptr::from_ref(self).expose_provenance() - bytes)
    }

    /// Returns true if another worker may take it, now that it is active and not running.
    #[inline]
    pub(crate) fn may_move(&self) -> bool {
        self.is_migratable() && self.flags.get() & flag::UNWINDING == 0
    }

    /// Returns true if the execution mode is recorded.
    #[inline(always)]
    pub(crate) fn has_exec_mode(&self) -> bool {
        cfg!(debug_assertions) || self.is_migratable()
    }

    #[inline]
    pub fn is_migratable(&self) -> bool {
        self.kind.get() & kind::MIGRATABLE != 0
    }

    /// Returns its class. Any thread may call, and may get the class of a moment ago.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        // Relaxed: a hint.
        Class::from_bits(self.class.load(Ordering::Relaxed) & class::CLASS)
    }

    /// Sets its class. Only the worker that runs it.
    pub(crate) fn set_class(&self, class: Class) {
        self.change_class(class::CLASS, class as u8);
    }

    /// Returns how often it was passed over in its queue.
    #[inline]
    pub(crate) fn passed(&self) -> u8 {
        (self.class.load(Ordering::Relaxed) & class::PASSED) >> class::PASSED.trailing_zeros()
    }

    /// Sets how often it was passed over. Only the worker that has it in its queue alone, or has
    /// taken it out.
    #[inline]
    pub(crate) fn set_passed(&self, times: u8) {
        self.change_class(class::PASSED, times);
    }

    /// Writes one part. No read-modify-write: one thread at a time writes.
    #[inline]
    fn change_class(&self, part: u8, value: u8) {
        let others = self.class.load(Ordering::Relaxed) & !part;
        self.class.store(others | value << part.trailing_zeros(), Ordering::Relaxed);
    }

    /// Returns true if a fiber uses the block: it has a reference.
    pub(crate) fn is_used(&self) -> bool {
        // Acquire: pairs with the Release in `renew`.
        self.refs.load(Ordering::Acquire) != 0
    }

    #[inline]
    pub(crate) fn retain(&self) {
        // Relaxed: the thread that makes a new handle has one.
        let before = self.refs.fetch_add(1, Ordering::Relaxed);
        if before & !INLINE_MESSAGES >= MOST_REFS {
            too_many_handles();
        }
    }

    /// Drops the reference of a handle that may have sent inline messages.
    #[cold]
    pub(crate) fn release_after_inline(&self) {
        // Relaxed: published by the release.
        self.refs.fetch_or(INLINE_MESSAGES, Ordering::Relaxed);
        self.release();
    }

    /// Drops one reference; the last drop frees the block.
    #[inline]
    pub(crate) fn release(&self) {
        // Acquire: pairs with the Release of all earlier drops, if this is the last reference. No
        // thread can make a new handle then, so the RMW is not needed.
        let mut refs = self.refs.load(Ordering::Acquire);
        if refs & !INLINE_MESSAGES != 1 {
            // Release: pairs with the Acquire above or below in the last drop.
            refs = self.refs.fetch_sub(1, Ordering::Release);
            if refs & !INLINE_MESSAGES != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        self.refs.store(0, Ordering::Relaxed);
        if refs & INLINE_MESSAGES != 0
            && let Owner::Finished(home) = self.owner.load()
        {
            // SAFETY: workers live as long as their runtime, and the runtime as long as its blocks.
            return unsafe { &*home }.free_after_inline(self);
        }
        self.free_behind_mail();
    }

    /// Frees a block without handles. No new message comes. A message that is under way keeps the
    /// block in an inbox, and the owner of that inbox frees it then.
    #[inline]
    pub(crate) fn free_behind_mail(&self) {
        if self.mail.is_empty() || self.mail.post(Messages::FREE) == Posted::Push {
            self.free_now();
        }
    }

    /// Returns the memory of a fiber that was never launched.
    pub(crate) fn discard(&self) {
        self.refs.store(0, Ordering::Relaxed);
        self.free_now();
    }

    /// Returns the memory. The block must be in no list.
    pub(crate) fn free_now(&self) {
        let _ = self.mail.collect();
        // SAFETY: the runtime outlives its control blocks.
        let runtime = unsafe { self.runtime.as_ref() };
        // The monitor copies a name: that is so short that it is waited for.
        while runtime.hazard.is_at(self, &runtime.barriers) {
            std::thread::yield_now();
        }
        self.name_end.set(0);
        runtime.pool.put(NonNull::from(self));
    }

    /// Applies `event` in the fiber's mode. For a pinned fiber: only its worker.
    #[inline]
    pub(crate) fn apply(&self, event: Event) -> Effect {
        process::assert_in_call();
        let effect = if self.is_migratable() {
            self.state.apply::<Shared>(event)
        } else {
            self.state.apply::<Plain>(event)
        };
        match event {
            Event::Cancel => self.record_cancel(effect),
            // The thread that made it active has it alone.
            Event::Interrupt if effect == Effect::Enqueue => self.add_flags(flag::INTERRUPTED),
            _ => {}
        }
        effect
    }
}

impl ControlBlock {
    /// Notes the effect of a cancel: it ended a suspension, or a pinned fiber's next one will not
    /// last.
    ///
    /// A migratable fiber that is active may run elsewhere, so its flags must not be touched: it
    /// finds the cancel in its run state when it suspends.
    #[cold]
    fn record_cancel(&self, effect: Effect) {
        match effect {
            Effect::Enqueue => self.add_flags(flag::CANCEL | flag::INTERRUPTED),
            _ if self.is_migratable() => {}
            _ => self.add_flags(flag::CANCEL),
        }
    }

    /// Makes the fiber unwind at its next suspension, or not start at all. Only the thread that has
    /// it alone.
    pub(crate) fn must_unwind(&self) {
        self.add_flags(flag::CANCEL);
    }

    /// Notes the event that the fiber found in its run state when it wanted to suspend. Only the
    /// thread that has it alone.
    #[cold]
    pub(crate) fn found(&self, come: Effect) {
        match come {
            Effect::Cancelled => self.add_flags(flag::CANCEL | flag::INTERRUPTED),
            Effect::Interrupted => self.add_flags(flag::INTERRUPTED),
            _proceed => {}
        }
    }

    /// Runs `body`, and counts it in the bits of `count`, a mask of flags. Only the fiber.
    ///
    /// # Panics
    ///
    /// If the bits have no room for one more: the panic names the call.
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

#[cfg(test)]
#[path = "../../../../tests/child.rs"]
mod child;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::panic::{self, AssertUnwindSafe};

    use super::*;

    /// A panic could be caught again and again, until the count reached the bit beside it.
    #[test]
    fn one_reference_too_many_ends_the_process() {
        let name = "fiber::control::tests::one_reference_too_many_ends_the_process";
        let output = child::in_child(name, || {
            let block = ControlBlock::unused(NonNull::dangling(), 0);
            block.refs.store((MOST_REFS - 1) | INLINE_MESSAGES, Ordering::Relaxed);
            block.retain();
            assert_eq!(block.refs.load(Ordering::Relaxed), MOST_REFS | INLINE_MESSAGES);
            println!("as many as there may be");
            let _ = panic::catch_unwind(AssertUnwindSafe(|| block.retain()));
        });
        let (out, err) = (child::stdout(&output), child::stderr(&output));
        assert!(out.contains("as many as there may be"), "{out}{err}");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{out}{err}");
        assert!(err.contains("daiko: a fiber has 2^30 handles"), "{err}");
    }
}
