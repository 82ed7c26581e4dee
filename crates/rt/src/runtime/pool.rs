//! Memory of fibers: stacks with a control block at the top, by size class.
//!
//! Memory is carved from slabs and reused until the runtime ends; a slab goes back to the arena
//! with the runtime. Each worker keeps some blocks of the default class for itself.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};

use daiko_context::stack::{Slab, StackClass, StackError};
use daiko_core::list::Fifo;
use daiko_sys::Scope;
use daiko_sys::arena::Arena;
use daiko_sys::lock::{Guard, Lock};
use daiko_sys::memory::{GuardKind, page_size};

use super::RuntimeInner;
use crate::atomic::{AtomicPtr, Ordering};
use crate::call::InCall;
use crate::fiber::{ControlBlock, SpawnError};
use crate::worker::{self, Worker};

/// The smallest class: 2^14 bytes.
const SMALLEST: u32 = 14;
/// Classes up to 2^30 bytes.
const CLASSES: usize = 17;
/// Maximum bytes of a slab of more than one stack.
const SLAB_BYTES: usize = 64 << 20;
/// Number of blocks that a worker takes from the pool, or returns to it, at a time.
const BATCH: usize = 32;
/// Alignment that the ABI requires of a stack's first frame.
const STACK_ALIGN: usize = 16;
/// Maximum number of blocks that a worker keeps.
const KEEP: usize = 256;

/// All stacks of a runtime.
pub struct Pool {
    arena: Arena,
    guard_kind: GuardKind,
    guard_bytes: usize,
    /// Index of the class that is used unless the spawn asks for another.
    default_class: u8,
    state: Lock<PoolState>,
    /// The newest slab made so far. Written under the lock. Read by any worker without the lock,
    /// even while a killed worker holds it, which its successor is to release.
    newest: AtomicPtr<SlabNode>,
}

/// The part of the pool that belongs to no worker.
struct PoolState {
    classes: [Class; CLASSES],
    /// Number of blocks that are not in a free list here: used, or kept by a worker.
    out: usize,
    /// True if the runtime has ended: the last block that comes back frees its memory.
    closed: bool,
}

/// The stacks of one size.
struct Class {
    free: Fifo<ControlBlock>,
    /// Slabs, newest first; all but the newest are used up.
    slabs: Option<NonNull<SlabNode>>,
    /// Number of stacks in all slabs.
    total: usize,
}

// SAFETY: the pointers are to blocks and slabs of the arena, which any thread may use; the mutex
// around the class ensures that one thread does at a time.
unsafe impl Send for Class {}

struct SlabNode {
    slab: Slab,
    /// Number of the slab among all that the pool has made, counted from 1.
    number: u32,
    /// Number of stacks that have become control blocks.
    used: usize,
    /// The next slab of this class.
    older: Option<NonNull<SlabNode>>,
    /// The slab that was made before it, of any class.
    before: *const SlabNode,
}

fn class_bytes(class: u8) -> usize {
    1 << (u32::from(class) + SMALLEST)
}

fn class_of(bytes: usize, guard: usize) -> Result<u8, StackError> {
    StackClass::new(bytes, guard)?;
    let log = bytes.next_power_of_two().trailing_zeros().max(SMALLEST);
    Ok((log - SMALLEST) as u8)
}

impl Pool {
    pub(crate) fn new(
        arena: Arena,
        guard_kind: GuardKind,
        guard_bytes: usize,
        stack_bytes: usize,
    ) -> Result<Self, StackError> {
        let class = || Class { free: Fifo::new(), slabs: None, total: 0 };
        let classes = std::array::from_fn(|_| class());
        let scope = arena.scope();
        Ok(Pool {
            arena,
            guard_kind,
            guard_bytes,
            default_class: class_of(stack_bytes, guard_bytes)?,
            state: Lock::new(scope, PoolState { classes, out: 0, closed: false }),
            newest: AtomicPtr::new(ptr::null_mut()),
        })
    }

    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    fn lock(&self, _: InCall<'_>) -> Guard<'_, PoolState> {
        self.state.lock()
    }

    /// Takes an unused block with a stack of at least `bytes`. `here` is the calling worker, if a
    /// worker of `runtime` calls.
    #[inline]
    pub(crate) fn take(
        &self,
        call: InCall<'_>,
        runtime: &RuntimeInner,
        here: Option<&Worker>,
        bytes: Option<usize>,
    ) -> Result<NonNull<ControlBlock>, StackError> {
        let class = match bytes {
            Some(bytes) => class_of(bytes, self.guard_bytes)?,
            None => self.default_class,
        };
        match here {
            Some(worker) if class == self.default_class => match worker.pool.pop() {
                Some(block) => Ok(block),
                None => worker.pool.refill(call, self, runtime),
            },
            _ => self.take_from(&mut self.lock(call), class, runtime),
        }
    }

    fn take_from(
        &self,
        state: &mut PoolState,
        id: u8,
        runtime: &RuntimeInner,
    ) -> Result<NonNull<ControlBlock>, StackError> {
        let class = &mut state.classes[usize::from(id)];
        let block = match class.free.pop() {
            Some(block) => block,
            None => self.carve(class, id, runtime)?,
        };
        state.out += 1;
        Ok(block)
    }

    /// Makes the next stack of the newest slab, or of a new one, a control block.
    fn carve(
        &self,
        class: &mut Class,
        id: u8,
        runtime: &RuntimeInner,
    ) -> Result<NonNull<ControlBlock>, StackError> {
        // SAFETY: slabs live until the pool is dropped.
        let node = match class.slabs.map(|mut node| unsafe { node.as_mut() }) {
            Some(node) if node.used < node.slab.len() => node,
            _ => self.grow(class, id)?,
        };
        let block = block_at(node.slab.top(node.used));
        node.used += 1;
        // SAFETY: the top of an unused stack of the slab, aligned, and large enough.
        unsafe { block.write(ControlBlock::unused(NonNull::from(runtime), id)) };
        Ok(block)
    }

    /// Adds a slab with as many stacks as there are, so that their number doubles, within bounds;
    /// with fewer if there is no room for so many.
    fn grow<'c>(&self, class: &'c mut Class, id: u8) -> Result<&'c mut SlabNode, StackError> {
        let bytes = class_bytes(id);
        let stack = StackClass::new(bytes, self.guard_bytes)?;
        let memory = self.arena.alloc(Layout::new::<SlabNode>()).map_err(StackError::from)?;
        let mut count = class.total.clamp(16, 1024).min(SLAB_BYTES / bytes).max(1);
        let slab = loop {
            match Slab::new(&self.arena, stack, count, self.guard_kind) {
                Ok(slab) => break slab,
                Err(_) if count > 1 => count /= 2,
                Err(error) => {
                    // SAFETY: just allocated with this layout.
                    unsafe { self.arena.free(memory, Layout::new::<SlabNode>()) };
                    return Err(error);
                }
            }
        };
        let mut node = memory.cast::<SlabNode>();
        let before = self.newest.load(Ordering::Relaxed).cast_const();
        let new = SlabNode { slab, number: self.slabs() + 1, used: 0, older: class.slabs, before };
        // SAFETY: just allocated for a node.
        unsafe { node.write(new) };
        class.slabs = Some(node);
        // Release: pairs with the Acquire in `newest`.
        self.newest.store(node.as_ptr(), Ordering::Release);
        class.total += count;
        // SAFETY: just written; it lives until the pool is dropped.
        Ok(unsafe { node.as_mut() })
    }

    /// Returns the number of slabs.
    #[inline]
    pub(crate) fn slabs(&self) -> u32 {
        self.newest().map_or(0, |newest| newest.number)
    }

    fn newest(&self) -> Option<&SlabNode> {
        // SAFETY: slabs live until the pool is dropped. Acquire: pairs with the Release in `grow`.
        unsafe { self.newest.load(Ordering::Acquire).as_ref() }
    }

    /// Guards the stacks of all slabs after the first `known` in the calling process, and maps
    /// their tops if `populates`. Returns the number of slabs then. Takes no lock.
    pub(crate) fn adopt_after(&self, known: u32, populates: bool) -> Result<u32, StackError> {
        let newest = self.newest();
        // SAFETY: as in `newest`.
        let all = std::iter::successors(newest, |node| unsafe { node.before.as_ref() });
        for node in all.take_while(|node| node.number > known) {
            node.slab.adopt(self.guard_kind)?;
            if populates {
                node.slab.populate();
            }
        }
        Ok(newest.map_or(0, |newest| newest.number))
    }

    /// Takes an unused block back, from any thread.
    pub(crate) fn put(&self, call: InCall<'_>, block: NonNull<ControlBlock>) {
        // SAFETY: a block is never unmapped.
        let control = unsafe { block.as_ref() };
        self.free_outside(control);
        let local = (control.size_class == self.default_class)
            .then(worker::current)
            .flatten()
            .filter(|worker| worker.runtime == control.runtime);
        match local {
            Some(worker) => worker.pool.put(call, self, block),
            None => {
                let last = self.lock(call).put(block);
                // SAFETY: the runtime outlives its blocks, and this was one of them.
                unsafe { RuntimeInner::free_if_last(control.runtime, last) };
            }
        }
    }

    /// Finds room for a name and a closure: below the block, or for a large closure in memory of
    /// its own. Returns the address below them, where the stack begins.
    #[inline]
    pub(crate) fn furnish(
        &self,
        block: NonNull<ControlBlock>,
        room: Layout,
        name: Option<&str>,
    ) -> Result<*mut u8, SpawnError> {
        // SAFETY: a block is never unmapped.
        let control = unsafe { block.as_ref() };
        let mut top: *mut u8 = block.as_ptr().cast();
        if let Some(name) = name {
            // SAFETY: the stack below the block is unused, and has room for it and more.
            top = unsafe { control.set_name(name) };
        }
        let top = align_down(top, STACK_ALIGN);
        if room.size() + room.align() > class_bytes(control.size_class) / 8 {
            let bytes = room.size();
            let packet = self.arena.alloc(outside_layout(bytes)).map_err(StackError::from);
            control.packet.set(packet.map_err(SpawnError::Stack)?);
            control.outside.set(bytes);
            return Ok(top);
        }
        let top = align_down(top.wrapping_sub(room.size()), room.align().max(STACK_ALIGN));
        control.packet.set(NonNull::new(top).expect("a stack is not at address 0"));
        Ok(top)
    }

    fn free_outside(&self, control: &ControlBlock) {
        let bytes = control.outside.replace(0);
        if bytes != 0 {
            // SAFETY: `furnish` allocated it with this layout; the closure and result are gone.
            unsafe { self.arena.free(control.packet.get(), outside_layout(bytes)) };
        }
    }

    /// Calls `each` with every block that was ever used.
    pub(crate) fn for_each<'p>(&'p self, call: InCall<'_>, mut each: impl FnMut(&'p ControlBlock)) {
        let state = self.lock(call);
        for class in &state.classes {
            let mut next = class.slabs;
            while let Some(node) = next {
                // SAFETY: slabs live until the pool is dropped.
                let node = unsafe { node.as_ref() };
                for index in 0..node.used {
                    // SAFETY: the stacks below `used` have become blocks.
                    each(unsafe { block_at(node.slab.top(index)).as_ref() });
                }
                next = node.older;
            }
        }
    }

    /// Counts another user of the runtime's memory as if it were a block.
    pub(crate) fn hold(&self, call: InCall<'_>) {
        self.lock(call).out += 1;
    }

    /// Ends a [`hold`](Self::hold); returns true if it was the last of a runtime that has ended.
    pub(crate) fn let_go(&self, call: InCall<'_>) -> bool {
        let mut state = self.lock(call);
        state.out -= 1;
        state.closed && state.out == 0
    }

    /// Closes the pool at the end of the runtime; returns true if all blocks are back.
    pub(crate) fn close(&self, call: InCall<'_>) -> bool {
        let mut state = self.lock(call);
        state.closed = true;
        state.out == 0
    }
}

impl PoolState {
    /// Takes a block back; returns true if it was the last of a runtime that has ended.
    fn put(&mut self, block: NonNull<ControlBlock>) -> bool {
        // SAFETY: a block is never unmapped.
        let class = unsafe { block.as_ref() }.size_class;
        // SAFETY: the block is unused, so it is in no list.
        unsafe { self.classes[usize::from(class)].free.push(block) };
        self.out -= 1;
        self.closed && self.out == 0
    }
}

/// Returns the address where the stack of a fiber begins, below the values that [`Pool::furnish`]
/// has put there.
pub(crate) fn stack_top(control: &ControlBlock) -> *mut u8 {
    match control.outside.get() {
        0 => control.packet.get().as_ptr(),
        _ => align_down(control.name_start(), STACK_ALIGN),
    }
}

fn align_down(address: *mut u8, align: usize) -> *mut u8 {
    address.map_addr(|addr| addr & !(align - 1))
}

fn outside_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, page_size()).expect("below isize::MAX")
}

fn block_at(top: *mut u8) -> NonNull<ControlBlock> {
    let block = top.wrapping_sub(size_of::<ControlBlock>()).cast();
    NonNull::new(block).expect("a stack does not end at address 0")
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Without shared memory no block has a robust list, and the look would touch all blocks.
        if self.arena.scope() == Scope::Shared {
            self.for_each(InCall::off_fibers(), |block| drop(block.union_word.take_robust_list()));
        }
        let state = self.state.get_mut();
        for class in &mut state.classes {
            while let Some(node) = class.slabs {
                // SAFETY: `grow` made the node, and it is not used after this.
                unsafe {
                    class.slabs = node.as_ref().older;
                    node.drop_in_place();
                    self.arena.free(node.cast(), Layout::new::<SlabNode>());
                }
            }
        }
    }
}

/// The blocks of the default class that a worker keeps; only its thread uses it.
pub(crate) struct LocalPool {
    free: UnsafeCell<Fifo<ControlBlock>>,
    count: Cell<usize>,
}

impl LocalPool {
    pub(crate) fn new() -> Self {
        LocalPool { free: UnsafeCell::new(Fifo::new()), count: Cell::new(0) }
    }

    #[allow(clippy::mut_from_ref)]
    fn free(&self) -> &mut Fifo<ControlBlock> {
        // SAFETY: one thread uses it, and no caller keeps the reference across another call.
        unsafe { &mut *self.free.get() }
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<ControlBlock>> {
        self.free().pop().inspect(|_| self.count.update(|count| count - 1))
    }

    #[cold]
    fn refill(
        &self,
        call: InCall<'_>,
        pool: &Pool,
        runtime: &RuntimeInner,
    ) -> Result<NonNull<ControlBlock>, StackError> {
        let mut state = pool.lock(call);
        let block = pool.take_from(&mut state, pool.default_class, runtime)?;
        for _ in 1..BATCH {
            // Only free blocks: a failure to grow belongs to the next caller.
            let class = &mut state.classes[usize::from(pool.default_class)];
            let Some(spare) = class.free.pop() else { break };
            state.out += 1;
            self.keep(spare);
        }
        Ok(block)
    }

    fn keep(&self, block: NonNull<ControlBlock>) {
        // SAFETY: the block is unused, so it is in no list. The newest first: it is warm.
        unsafe { self.free().push_front(block) };
        self.count.update(|count| count + 1);
    }

    #[inline]
    fn put(&self, call: InCall<'_>, pool: &Pool, block: NonNull<ControlBlock>) {
        self.keep(block);
        if self.count.get() > KEEP {
            self.give_back(call, pool, BATCH);
        }
    }

    /// Returns `count` blocks, or as many as there are, to the pool.
    pub(crate) fn give_back(&self, call: InCall<'_>, pool: &Pool, count: usize) {
        if self.count.get() == 0 {
            return;
        }
        let mut state = pool.lock(call);
        for _ in 0..count.min(self.count.get()) {
            let block = self.pop().expect("as many as counted");
            // Never the last of an ended runtime: the worker keeps the runtime from ending.
            let _last = state.put(block);
        }
    }
}
