//! The control block: all state that the runtime keeps of one fiber.

use std::alloc::Layout;
use std::cell::Cell;
use std::panic::Location;
use std::ptr::{self, NonNull};

use daiko_context::stack::StackError;
use daiko_context::{StackPointer, prefetch_write};
use daiko_core::fiber::{
    Addressee, Completion, Effect, ExecMode, Mail, Messages, Owner, OwnerWord, Posted, Refs,
    Released, RunState,
};
use daiko_core::field;
use daiko_core::inspect::BlockLayout;
use daiko_core::list::Linked;
use daiko_core::place::ClassWord;
use daiko_core::queue::Place;
use daiko_sys::arena::Arena;
use daiko_sys::memory::page_size;
use daiko_sys::policy;
use daiko_sys::signal;

use super::cancelled::CancelScope;
use super::flags::Flags;
use super::kind::{Kind, StackKind};
use super::robust_list_word::RobustListWord;
use super::spawn_error::SpawnError;
use super::target_word::TargetWord;
use crate::atomic::{AtomicPtr, AtomicU8, Ordering};
use crate::call::token::InCall;
use crate::process;
use crate::runtime::RuntimeInner as Runtime;
use crate::worker::Worker;

/// Aborts the process: see [`Refs::retain`].
#[cold]
#[inline(never)]
fn too_many_handles() -> ! {
    let text = "daiko: a fiber has 2^30 handles; drop them, as mem::forget leaves each counted\n";
    signal::write_stderr(&[text.as_bytes()]);
    signal::abort()
}

/// Maximum bytes of a name; the rest is cut off.
pub(crate) const MAX_NAME: usize = 256;
/// Alignment that the ABI requires of a stack's first frame.
const STACK_ALIGN: usize = 16;

fn align_down(address: *mut u8, align: usize) -> *mut u8 {
    address.map_addr(|addr| addr & !(align - 1))
}

/// Lies right below a packet that is not on the stack.
struct OutsideHeader {
    /// The memory of both.
    layout: Layout,
    /// Bytes from its beginning to the packet.
    offset: usize,
}

impl OutsideHeader {
    fn new(room: Layout) -> Self {
        let offset = room.align().max(size_of::<Self>().next_power_of_two());
        let layout = Layout::from_size_align(offset + room.size(), page_size());
        Self { layout: layout.expect("below isize::MAX"), offset }
    }

    /// Returns the place of the header of `packet`.
    fn below(packet: NonNull<u8>) -> *mut Self {
        packet.as_ptr().wrapping_byte_sub(size_of::<Self>()).cast()
    }
}

/// The header of data that a client keeps for a fiber, such as its locals.
pub struct FiberData {
    /// Drops the data of the fiber, the caller, which has come to its end.
    pub end: fn(InCall<'_>, &ControlBlock),
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
    pub(crate) leave: Option<unsafe fn(InCall<'_>, NonNull<u8>)>,
    /// The fate of the fiber if it is lost.
    pub(crate) lost: Lost,
}

/// The fate of a fiber that is lost.
#[derive(Clone, Copy)]
pub(crate) enum Lost {
    /// The fiber ends without a result.
    Ends,
    /// The fiber ends without a result, after the function has informed its packet. For a scoped
    /// fiber.
    Tells(unsafe fn(NonNull<u8>)),
    /// The fiber begins anew: its closure stays in the packet as long as the fiber is in user code.
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
    /// Its flags. Only the worker that runs it, or its agent; before the start, the thread that has
    /// it.
    pub flags: Flags,
    /// Its kind. Written at spawn.
    kind: Cell<Kind>,
    /// Its class. Written by the worker that runs it, or has it in its queue alone; read by any
    /// thread.
    pub(crate) class: ClassWord,
    /// The execution mode of a migratable fiber; with debug assertions, of every fiber. Written and
    /// read by the worker that runs it; read by the successor once that process has died.
    pub(crate) exec_mode: ExecMode,
    /// Link of the one queue that it is in. The thread that has it there.
    link: AtomicPtr<ControlBlock>,
    /// Link of the one inbox that it is in. The thread that has it there.
    mail_link: AtomicPtr<ControlBlock>,
    /// The target of its wait.
    pub(crate) target: TargetWord,
    /// The closure, later the result. Written at spawn.
    pub(crate) packet: Cell<NonNull<u8>>,

    /// Its end. The fiber and the one join handle.
    pub(crate) completion: Completion,
    /// Its handles, and the fiber itself until it has left its stack. Any thread.
    refs: Refs,
    /// Length + 1 of the name, which lies right below the block; 0: none. Written at spawn.
    name_end: Cell<u16>,
    /// Class of the stack. Fixed when the memory becomes a control block.
    pub(crate) class_of_stack: StackKind,
    /// Its place in the stealable queue that it was put into last. Written by the worker that puts
    /// it there; for its joiner, a hint.
    place: AtomicU8,
    /// The source location that spawned it. Written at spawn.
    pub(crate) spawned_at: Cell<&'static Location<'static>>,
    /// The functions of its closure. Written at spawn.
    pub(crate) vtable: Cell<&'static Vtable>,
    /// The innermost cancel scope that it is in; null: none. Only the fiber.
    pub(crate) scopes: Cell<*const CancelScope>,
    /// The runtime. Fixed when the memory becomes a control block.
    pub runtime: NonNull<Runtime>,
    /// Its locals; null if it has none, and when it has ended. The fiber.
    pub locals: Cell<*mut FiberData>,
    /// Its robust list, where workers are processes. Only the fiber, and the successor of its
    /// worker.
    pub(crate) robust_list: RobustListWord,
}

const _: () = assert!(size_of::<ControlBlock>() == 128);
const _: () = assert!(std::mem::offset_of!(ControlBlock, completion) == 64);

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
    /// Its layout, for debuggers.
    pub(crate) const LAYOUT: BlockLayout = BlockLayout {
        bytes: size_of::<Self>() as u64,
        stack_pointer: field!(ControlBlock, sp),
        owner: field!(ControlBlock, owner),
        state: field!(ControlBlock, state),
        kind: field!(ControlBlock, kind),
        target: field!(ControlBlock, target),
        packet: field!(ControlBlock, packet),
        refs: field!(ControlBlock, refs),
        name_end: field!(ControlBlock, name_end),
        spawned_at: field!(ControlBlock, spawned_at),
        runtime: field!(ControlBlock, runtime),
        owner_early: OwnerWord::<Worker>::EARLY,
        owner_finished: OwnerWord::<Worker>::FINISHED,
        state_phase: RunState::PHASE,
        state_parked: RunState::PARKED,
        refs_count: Refs::COUNT,
        kind_migratable: Kind::BORROWED_MIGRATABLE.bits(),
        kind_own: Kind::PINNED.bits(),
        kind_lent: Kind::LENT.bits() & !Kind::MIGRATABLE.bits(),
    };

    /// Creates a block that no fiber uses yet.
    pub(crate) fn unused(runtime: NonNull<Runtime>, class_of_stack: StackKind) -> Self {
        ControlBlock {
            sp: Cell::new(StackPointer::NULL),
            owner: OwnerWord::new(),
            state: RunState::new(),
            mail: Mail::new(),
            flags: Flags::new(),
            kind: Cell::new(Kind::BORROWED),
            class: ClassWord::new(),
            exec_mode: ExecMode::new(),
            link: AtomicPtr::new(ptr::null_mut()),
            mail_link: AtomicPtr::new(ptr::null_mut()),
            target: TargetWord::new(),
            packet: Cell::new(NonNull::dangling()),
            completion: Completion::new(),
            refs: Refs::new(),
            name_end: Cell::new(0),
            class_of_stack,
            place: AtomicU8::new(0),
            spawned_at: Cell::new(Location::caller()),
            vtable: Cell::new(&UNUSED),
            scopes: Cell::new(ptr::null()),
            runtime,
            locals: Cell::new(ptr::null_mut()),
            robust_list: RobustListWord::new(),
        }
    }

    /// Makes it the block of a new fiber: unstarted, with one handle beside its own reference, and
    /// with room for its packet. Returns the address below name and packet, where the stack begins.
    #[inline]
    pub(crate) fn renew(
        &self,
        kind: Kind,
        name: Option<&str>,
        room: Layout,
        spawned_at: &'static Location<'static>,
    ) -> Result<*mut u8, SpawnError> {
        self.reset(kind, spawned_at);
        // SAFETY: the stack below the block is unused, and has room for the name and more.
        let named = name.map_or_else(|| self.name_start(), |name| unsafe { self.set_name(name) });
        let mut stack_top = align_down(named, STACK_ALIGN);
        if room.size() + room.align() > self.class_of_stack.bytes() / 8 {
            self.make_room_outside(room)?;
        } else {
            let packet = stack_top.wrapping_sub(room.size());
            stack_top = align_down(packet, room.align().max(STACK_ALIGN));
            self.packet.set(NonNull::new(stack_top).expect("a stack is not at address 0"));
        }
        // Last: a reader that sees the references sees the owner word reset.
        self.refs.begin();
        Ok(stack_top)
    }

    /// Makes it the block of a context that is lent: unstarted, with one handle beside its own
    /// reference, and with no closure.
    pub(crate) fn renew_as_lent(&self, lent_at: &'static Location<'static>) {
        self.reset(Kind::LENT, lent_at);
        self.vtable.set(&UNUSED);
        // Last, as in `renew`.
        self.refs.begin();
    }

    fn reset(&self, kind: Kind, spawned_at: &'static Location<'static>) {
        self.owner.reset();
        self.completion.reset();
        self.flags.reset();
        self.kind.set(kind);
        self.class.reset();
        self.exec_mode.reset();
        self.spawned_at.set(spawned_at);
        self.target.clear();
        if process::is_active() {
            self.clear_robust_list();
        }
    }

    /// Clears the robust list that the block has kept from an earlier fiber, if there is one.
    #[cold]
    fn clear_robust_list(&self) {
        if let Some(mut list) = self.robust_list.get() {
            // SAFETY: the block keeps it as long as the runtime; no fiber uses the block at this
            // time.
            unsafe { list.as_mut() }.clear();
        }
    }

    /// Gives a packet that is large for the stack memory of its own.
    #[cold]
    fn make_room_outside(&self, room: Layout) -> Result<(), SpawnError> {
        let header = OutsideHeader::new(room);
        let memory = self.arena().alloc(header.layout).map_err(StackError::from);
        // SAFETY: within the memory.
        let packet = unsafe { memory.map_err(SpawnError::Stack)?.add(header.offset) };
        // SAFETY: the memory has room for the header below the packet, and is aligned for it.
        unsafe { OutsideHeader::below(packet).write(header) };
        self.packet.set(packet);
        self.kind.set(self.kind.get().with_packet_outside(true));
        Ok(())
    }

    /// Frees the memory of a packet that is not on the stack, if there is any.
    pub(crate) fn free_outside(&self) {
        if self.kind.get().has_packet_outside() {
            self.kind.set(self.kind.get().with_packet_outside(false));
            let packet = self.packet.get();
            // SAFETY: `make_room_outside` has put it there.
            let OutsideHeader { layout, offset } = unsafe { OutsideHeader::below(packet).read() };
            // SAFETY: `make_room_outside` allocated it with this layout; the closure and result are
            // gone.
            unsafe { self.arena().free(packet.sub(offset), layout) };
        }
    }

    fn arena(&self) -> &Arena {
        // SAFETY: the runtime outlives its control blocks.
        unsafe { self.runtime.as_ref() }.pool.arena()
    }

    /// Returns the address where the stack of the fiber begins, below the values that
    /// [`renew`](Self::renew) has put there.
    pub(crate) fn stack_top(&self) -> *mut u8 {
        match self.kind.get().has_packet_outside() {
            true => align_down(self.name_start(), STACK_ALIGN),
            false => self.packet.get().as_ptr(),
        }
    }

    /// Puts `name` below the block, where it is until the block is freed; returns its first byte.
    ///
    /// # Safety
    ///
    /// The stack below the block is unused, and has room for the name.
    unsafe fn set_name(&self, name: &str) -> *mut u8 {
        let name = &name.as_bytes()[..name.floor_char_boundary(MAX_NAME)];
        let start = self.below(name.len());
        // SAFETY: unused and with room, by this function's contract.
        unsafe { start.copy_from_nonoverlapping(name.as_ptr(), name.len()) };
        self.name_end.set(name.len() as u16 + 1);
        start
    }

    /// Returns the packet of the fiber that uses the block now, for any thread to compare.
    pub(crate) fn packet_now(&self) -> *mut u8 {
        // SAFETY: a word of the block, which is never unmapped.
        unsafe { AtomicPtr::from_ptr(self.packet.as_ptr().cast()) }.load(Ordering::Relaxed)
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
    fn name_start(&self) -> *mut u8 {
        self.below(self.name_end.get().saturating_sub(1) as usize)
    }

    /// Returns the address `bytes` below the top of the stack: below this block, and below the
    /// thread control block if there is one.
    fn below(&self, bytes: usize) -> *mut u8 {
        let block = ptr::from_ref(self).expose_provenance();
        let top = match self.class_of_stack.is_own() {
            // SAFETY: the runtime outlives its control blocks.
            true => unsafe { self.runtime.as_ref() }.pool.thread_block_start(self).addr(),
            false => block,
        };
        ptr::with_exposed_provenance_mut(top - bytes)
    }

    /// Returns true if another worker may take it, now that it is active and not running.
    #[inline]
    pub(crate) fn may_move(&self) -> bool {
        self.is_migratable() && (self.is_own() || !self.flags.was_unwinding())
    }

    /// Notes its place in the stealable queue that it is about to be put into.
    #[inline]
    pub(crate) fn set_place(&self, place: Place) {
        // Relaxed: a hint.
        self.place.store(place.index(), Ordering::Relaxed);
    }

    /// Returns its place in the stealable queue that it is in, if it is in one.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place::at(self.place.load(Ordering::Relaxed))
    }

    /// Returns true if the execution mode is recorded.
    #[inline(always)]
    pub(crate) fn has_exec_mode(&self) -> bool {
        cfg!(debug_assertions) || self.is_migratable()
    }

    #[inline]
    pub fn is_migratable(&self) -> bool {
        self.kind.get().is_migratable()
    }

    /// Returns true if it has thread-locals of its own.
    #[inline(always)]
    pub(crate) fn is_own(&self) -> bool {
        self.kind.get().is_own()
    }

    /// Returns true if its context belongs to another kernel thread, which has lent it.
    #[inline(always)]
    pub(crate) fn is_lent(&self) -> bool {
        self.kind.get().is_lent()
    }

    /// Returns true if it runs code of another language, which no unwind may pass.
    pub(crate) fn is_foreign(&self) -> bool {
        self.kind.get().is_foreign()
    }

    /// Returns the stack pointer of a fiber that another worker may be leaving: it may be stale.
    #[inline(always)]
    pub(crate) fn recent_sp(&self) -> *const u8 {
        // SAFETY: a word of the block, which is never unmapped.
        unsafe { AtomicPtr::from_ptr(self.sp.as_ptr().cast::<*mut u8>()) }.load(Ordering::Relaxed)
    }

    /// Returns true if a fiber uses the block: it has a reference.
    pub(crate) fn is_used(&self) -> bool {
        self.refs.is_used()
    }

    #[inline]
    pub(crate) fn retain(&self) {
        self.refs.retain(too_many_handles);
    }

    /// Drops the reference of a handle that may have sent inline messages.
    #[cold]
    pub(crate) fn release_after_inline(&self, call: InCall<'_>) {
        self.free_after(call, self.refs.release_after_inline());
    }

    /// Drops one reference; the last drop frees the block.
    #[inline]
    pub(crate) fn release(&self, call: InCall<'_>) {
        self.free_after(call, self.refs.release());
    }

    /// Frees the block if the last reference was dropped.
    #[inline(always)]
    fn free_after(&self, call: InCall<'_>, released: Released) {
        if released == Released::Kept {
            return;
        }
        if released == Released::LastAfterInline
            && let Owner::Finished(home) = self.owner.load()
        {
            // SAFETY: workers live as long as their runtime, and the runtime as long as its blocks.
            return unsafe { &*home }.free_after_inline(call, self);
        }
        self.free_behind_mail(call);
    }

    /// Frees a block without handles. No new message comes. A message that is under way keeps the
    /// block in an inbox, and the owner of that inbox frees it then.
    #[inline]
    pub(crate) fn free_behind_mail(&self, call: InCall<'_>) {
        if self.mail.is_empty() || self.mail.post(Messages::FREE) == Posted::Push {
            self.free_now(call);
        }
    }

    /// Returns the memory of a fiber that was never launched.
    pub(crate) fn discard(&self, call: InCall<'_>) {
        self.refs.end();
        self.free_now(call);
    }

    /// Returns the memory. The block must be in no list.
    pub(crate) fn free_now(&self, call: InCall<'_>) {
        let _ = self.mail.collect();
        // SAFETY: the runtime outlives its control blocks.
        let runtime = unsafe { self.runtime.as_ref() };
        // The monitor copies a name: that is so short that it is waited for.
        while runtime.hazard.is_at(self, &runtime.barriers) {
            if !runtime.is_here() {
                return;
            }
            policy::give_way();
        }
        self.name_end.set(0);
        runtime.pool.put(call, NonNull::from(self));
    }
}

impl ControlBlock {
    /// Makes the fiber unwind at its next suspension, or not start at all. Only the thread that has
    /// it alone.
    pub(crate) fn must_unwind(&self) {
        self.flags.cancel();
    }

    /// Notes the event that the fiber found in its run state when it wanted to suspend. Only the
    /// thread that has it alone.
    #[cold]
    pub(crate) fn found(&self, come: Effect) {
        match come {
            Effect::Cancelled => self.flags.end_by_cancel(),
            Effect::Interrupted => self.flags.end_by_interrupt(),
            _proceed => {}
        }
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
    use crate::atomic::AtomicU32;

    /// A panic could be caught again and again, until the count reached the bit beside it.
    #[test]
    fn one_reference_too_many_ends_the_process() {
        let name = "fiber::control::tests::one_reference_too_many_ends_the_process";
        let output = child::in_child(name, || {
            let block = ControlBlock::unused(NonNull::dangling(), StackKind::new(1 << 16, false));
            // SAFETY: `Refs` is one transparent `AtomicU32`, and lives as long as the block.
            let count = unsafe { &*ptr::from_ref(&block.refs).cast::<AtomicU32>() };
            count.store(Refs::MOST - 1, Ordering::Relaxed);
            block.retain();
            assert_eq!(count.load(Ordering::Relaxed), Refs::MOST);
            println!("as many as there may be");
            let _ = panic::catch_unwind(AssertUnwindSafe(|| block.retain()));
        });
        let (out, err) = (child::stdout(&output), child::stderr(&output));
        assert!(out.contains("as many as there may be"), "{out}{err}");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{out}{err}");
        assert!(err.contains("daiko: a fiber has 2^30 handles"), "{err}");
    }
}
