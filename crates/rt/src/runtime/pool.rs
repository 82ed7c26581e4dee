//! Memory of fibers: stacks with a control block at the top, by size class.
//!
//! Memory is carved from slabs and reused until the runtime ends; a slab goes back to the arena
//! with the runtime. Each worker keeps some blocks of the default class for itself.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};

use daiko_context::stack::{Slab, StackClass, StackError};
use daiko_core::field;
use daiko_core::inspect::Field;
use daiko_core::list::Fifo;
use daiko_home::{Blocks, ThreadPointer, Unsupported};
use daiko_sys::Scope;
use daiko_sys::arena::Arena;
use daiko_sys::lock::{Guard, Lock};
use daiko_sys::memory::GuardKind;

use super::RuntimeInner;
use crate::atomic::{AtomicPtr, Ordering};
use crate::call::InCall;
use crate::fiber::{ControlBlock, Kind, SpawnError, StackKind};
use crate::worker::{self, Worker};

/// Maximum bytes of a slab of more than one stack.
const SLAB_BYTES: usize = 64 << 20;
/// Number of blocks that a worker takes from the pool, or returns to it, at a time.
const BATCH: usize = 32;
/// Maximum number of blocks of one kind that a worker keeps.
const KEEP: usize = 256;
/// Least bytes of a stack below a thread control block.
const LEAST_STACK: usize = 8192;

/// All stacks of a runtime.
pub struct Pool {
    arena: Arena,
    guard_kind: GuardKind,
    guard_bytes: usize,
    /// Bytes of a stack unless the spawn asks for another size.
    stack_bytes: usize,
    /// The builder of thread control blocks; `None`: no fiber has one.
    blocks: Option<Blocks>,
    state: Lock<PoolState>,
    /// The newest slab made so far. Written under the lock. Read by any worker without the lock,
    /// even while a killed worker holds it, which its successor is to release.
    newest: AtomicPtr<SlabNode>,
    /// The newest batch of blocks for contexts that are lent. Written under the lock.
    lent: AtomicPtr<LentBatch>,
}

/// Blocks for contexts that are lent, which lie apart from the stacks.
#[repr(C)]
struct LentBatch {
    blocks: [ControlBlock; BATCH],
    /// The batch that was made before it.
    older: *const LentBatch,
}

/// The part of the pool that belongs to no worker.
struct PoolState {
    classes: [Class; StackKind::COUNT],
    /// Number of blocks that are not in a free list here: used, or kept by a worker.
    out: usize,
    /// True if the runtime has ended: the last block that comes back frees its memory.
    closed: bool,
}

/// The stacks of one kind.
struct Class {
    /// The block that came back last is taken first.
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

impl SlabNode {
    /// Ends the thread control blocks of all stacks.
    ///
    /// # Safety
    ///
    /// The stacks have such blocks, and no fiber uses them any more.
    unsafe fn destroy_blocks(&self, blocks: Blocks) {
        for index in 0..self.used {
            // SAFETY: `carve` has built a block for each used stack.
            unsafe { blocks.destroy(block_at(self.slab.top(index)).cast()) };
        }
    }
}

impl Pool {
    /// For debuggers: the newest batch, and of a batch the older one and the blocks.
    pub(crate) const LENT: [Field; 3] =
        [field!(Pool, lent), field!(LentBatch, older), field!(LentBatch, blocks)];

    pub(crate) fn new(
        arena: Arena,
        guard_kind: GuardKind,
        guard_bytes: usize,
        stack_bytes: usize,
        blocks: Option<Blocks>,
    ) -> Result<Self, StackError> {
        StackClass::new(stack_bytes, guard_bytes)?;
        let class = || Class { free: Fifo::new(), slabs: None, total: 0 };
        let classes = std::array::from_fn(|_| class());
        let scope = arena.scope();
        Ok(Pool {
            arena,
            guard_kind,
            guard_bytes,
            stack_bytes,
            blocks,
            state: Lock::new(scope, PoolState { classes, out: 0, closed: false }),
            newest: AtomicPtr::new(ptr::null_mut()),
            lent: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// Returns the builder of thread control blocks, which a fiber has only if there is one.
    pub(crate) fn blocks(&self) -> Blocks {
        self.blocks.expect("a fiber of its own kind needs the builder of blocks")
    }

    /// Returns the lowest byte of the thread control block below `fiber`, which has one.
    pub(crate) fn thread_block_start(&self, fiber: &ControlBlock) -> *mut u8 {
        self.blocks().start(NonNull::from(fiber).cast())
    }

    /// Returns the thread pointer of `fiber`, which has a thread control block.
    #[inline]
    pub(crate) fn thread_pointer(&self, fiber: NonNull<ControlBlock>) -> ThreadPointer {
        self.blocks().thread_pointer(fiber.cast())
    }

    /// Makes the thread control block of the new `fiber` ready, and returns its thread pointer.
    #[inline]
    pub(crate) fn enter(&self, fiber: &ControlBlock) -> Result<ThreadPointer, SpawnError> {
        // SAFETY: `carve` has built the thread control block; nothing runs with it, and the stack
        // is unused.
        unsafe { self.blocks().enter(NonNull::from(fiber).cast()) }
            .map_err(SpawnError::ThreadLocals)?;
        Ok(self.thread_pointer(NonNull::from(fiber)))
    }

    /// Returns the size to ask for if a fiber shall have a stack as large as one of this `kind`;
    /// `None`: the size that fibers have anyway.
    pub(crate) fn size_of(&self, kind: StackKind) -> Option<usize> {
        let usual = StackKind::new(self.stack_bytes, kind.is_own());
        (kind != usual && !kind.is_lent()).then(|| kind.bytes())
    }

    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    fn lock(&self, _: InCall<'_>) -> Guard<'_, PoolState> {
        self.state.lock()
    }

    /// Takes an unused block with a stack of at least `bytes`, for a fiber of this `kind`, whose
    /// thread control block, if it has one, is to be [entered](Self::enter). `here` is the
    /// calling worker, if a worker of `runtime` calls.
    #[inline]
    pub(crate) fn take(
        &self,
        call: InCall<'_>,
        runtime: &RuntimeInner,
        here: Option<&Worker>,
        kind: Kind,
        bytes: Option<usize>,
    ) -> Result<NonNull<ControlBlock>, SpawnError> {
        let local = here
            .filter(|_| bytes.is_none_or(|bytes| bytes == self.stack_bytes))
            .map(|worker| worker.pool.of(kind.is_own()));
        match local.and_then(LocalPool::pop) {
            Some(block) => Ok(block),
            None => self.take_slow(call, runtime, local, kind, bytes),
        }
    }

    /// Takes a block of all workers, and some more for `local` to keep, if the calling worker's
    /// blocks are of that kind.
    #[cold]
    fn take_slow(
        &self,
        call: InCall<'_>,
        runtime: &RuntimeInner,
        local: Option<&LocalPool>,
        kind: Kind,
        bytes: Option<usize>,
    ) -> Result<NonNull<ControlBlock>, SpawnError> {
        if kind.is_own() && self.blocks.is_none() {
            let reason = Blocks::get().err().unwrap_or(Unsupported::Disabled);
            return Err(SpawnError::ThreadLocals(reason.into()));
        }
        let bytes = bytes.unwrap_or(self.stack_bytes);
        StackClass::new(bytes, self.guard_bytes).map_err(SpawnError::Stack)?;
        let kind = StackKind::new(bytes, kind.is_own());
        match local {
            Some(local) => local.refill(call, self, kind, runtime),
            None => self.take_from(&mut self.lock(call), kind, runtime),
        }
    }

    /// Takes an unused block for a context that is lent. It lies apart from the stack.
    pub(crate) fn take_lent(
        &self,
        call: InCall<'_>,
        runtime: &RuntimeInner,
    ) -> Result<NonNull<ControlBlock>, SpawnError> {
        let mut state = self.lock(call);
        let free = &mut state.classes[StackKind::LENT.index()].free;
        let block = match free.pop() {
            Some(block) => block,
            None => {
                let memory = self.arena.alloc(Layout::new::<LentBatch>());
                let memory = memory.map_err(|error| SpawnError::Stack(error.into()))?;
                let older = self.lent.load(Ordering::Relaxed);
                let unused = || ControlBlock::unused(NonNull::from(runtime), StackKind::LENT);
                // SAFETY: just allocated for a batch.
                let batch = unsafe {
                    let batch = memory.cast::<LentBatch>();
                    batch.write(LentBatch { blocks: std::array::from_fn(|_| unused()), older });
                    batch
                };
                // Release: a debugger that finds the batch finds its blocks.
                self.lent.store(batch.as_ptr(), Ordering::Release);
                let first = batch.cast::<ControlBlock>();
                for index in 1..BATCH {
                    // SAFETY: a block of the batch, which begins with them; no list has it.
                    unsafe { free.push(first.add(index)) };
                }
                first
            }
        };
        state.out += 1;
        Ok(block)
    }

    fn take_from(
        &self,
        state: &mut PoolState,
        kind: StackKind,
        runtime: &RuntimeInner,
    ) -> Result<NonNull<ControlBlock>, SpawnError> {
        let class = &mut state.classes[kind.index()];
        let block = match class.free.pop() {
            Some(block) => block,
            None => self.carve(class, kind, runtime)?,
        };
        state.out += 1;
        Ok(block)
    }

    /// Makes the next stack of the newest slab, or of a new one, a control block.
    fn carve(
        &self,
        class: &mut Class,
        kind: StackKind,
        runtime: &RuntimeInner,
    ) -> Result<NonNull<ControlBlock>, SpawnError> {
        // SAFETY: slabs live until the pool is dropped.
        let node = match class.slabs.map(|mut node| unsafe { node.as_mut() }) {
            Some(node) if node.used < node.slab.len() => node,
            _ => self.grow(class, kind).map_err(SpawnError::Stack)?,
        };
        let block = block_at(node.slab.top(node.used));
        if kind.is_own() {
            let bottom = node.slab.bottom(node.used);
            self.check_room(block, bottom, kind)?;
            // SAFETY: the end of an unused stack, below a control block, which is aligned to a
            // line; the stack is writable.
            unsafe { self.blocks().build(block.cast(), bottom) }
                .map_err(SpawnError::ThreadLocals)?;
        }
        node.used += 1;
        // SAFETY: the top of an unused stack of the slab, aligned, and large enough.
        unsafe { block.write(ControlBlock::unused(NonNull::from(runtime), kind)) };
        Ok(block)
    }

    /// Checks that a stack from `bottom` to `top` has room for a thread control block and frames.
    fn check_room(
        &self,
        top: NonNull<ControlBlock>,
        bottom: *mut u8,
        kind: StackKind,
    ) -> Result<(), SpawnError> {
        let blocks = self.blocks();
        let needed = (blocks.bytes() + LEAST_STACK).max(blocks.least_stack());
        if top.addr().get() - bottom.addr() < needed {
            let (size, least) = (kind.bytes(), needed.next_power_of_two());
            return Err(SpawnError::Stack(StackError::Size { size, least }));
        }
        Ok(())
    }

    /// Adds a slab with as many stacks as there are, so that their number doubles, within bounds;
    /// with fewer if there is no room for so many.
    fn grow<'c>(
        &self,
        class: &'c mut Class,
        kind: StackKind,
    ) -> Result<&'c mut SlabNode, StackError> {
        let bytes = kind.bytes();
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
        control.free_outside();
        let kind = control.class_of_stack;
        if kind.is_own() {
            // SAFETY: `carve` has built the thread control block, and no fiber uses it any more.
            unsafe { self.blocks().leave(block.cast()) };
        }
        let local = (kind == StackKind::new(self.stack_bytes, kind.is_own()))
            .then(worker::current)
            .flatten()
            .filter(|worker| worker.runtime == control.runtime);
        match local {
            Some(worker) => worker.pool.of(kind.is_own()).put(call, self, block),
            // SAFETY: the runtime outlives its blocks. The lock may be taken for ever in a child.
            None if unsafe { !control.runtime.as_ref().is_here() } => {}
            None => {
                let last = self.lock(call).put(block);
                // SAFETY: the runtime outlives its blocks, and this was one of them.
                unsafe { RuntimeInner::free_if_last(control.runtime, last) };
            }
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
        let class = unsafe { block.as_ref() }.class_of_stack.index();
        // SAFETY: the block is unused, so it is in no list. The newest first: it is warm.
        unsafe { self.classes[class].free.push_front(block) };
        self.out -= 1;
        self.closed && self.out == 0
    }
}

fn block_at(top: *mut u8) -> NonNull<ControlBlock> {
    let block = top.wrapping_sub(size_of::<ControlBlock>()).cast();
    NonNull::new(block).expect("a stack does not end at address 0")
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Without shared memory no block has a robust list, and the look would touch all blocks.
        if self.arena.scope() == Scope::Shared {
            self.for_each(InCall::off_fibers(), |block| drop(block.robust_list.take()));
        }
        let blocks = self.blocks;
        let state = self.state.get_mut();
        for (index, class) in state.classes.iter_mut().enumerate() {
            let blocks = blocks.filter(|_| StackKind::at(index).is_own());
            while let Some(node) = class.slabs {
                // SAFETY: `grow` made the node, and no fiber uses a stack of it.
                unsafe { blocks.inspect(|blocks| node.as_ref().destroy_blocks(*blocks)) };
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

/// The blocks of the default size that a worker keeps; only its thread uses them.
pub(crate) struct LocalPools {
    own: LocalPool,
    borrowed: LocalPool,
}

impl LocalPools {
    pub(crate) fn new() -> Self {
        LocalPools { own: LocalPool::new(), borrowed: LocalPool::new() }
    }

    /// Returns the blocks whose stacks have a thread control block, or have none.
    #[inline]
    fn of(&self, own: bool) -> &LocalPool {
        if own { &self.own } else { &self.borrowed }
    }

    /// Returns all blocks to the pool.
    pub(crate) fn give_back(&self, call: InCall<'_>, pool: &Pool) {
        self.own.give_back(call, pool, usize::MAX);
        self.borrowed.give_back(call, pool, usize::MAX);
    }
}

/// The blocks of one kind that a worker keeps.
struct LocalPool {
    free: UnsafeCell<Fifo<ControlBlock>>,
    count: Cell<usize>,
}

impl LocalPool {
    fn new() -> Self {
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

    fn refill(
        &self,
        call: InCall<'_>,
        pool: &Pool,
        kind: StackKind,
        runtime: &RuntimeInner,
    ) -> Result<NonNull<ControlBlock>, SpawnError> {
        let mut state = pool.lock(call);
        let block = pool.take_from(&mut state, kind, runtime)?;
        for _ in 1..BATCH {
            // Only free blocks: a failure to grow belongs to the next caller.
            let Some(spare) = state.classes[kind.index()].free.pop() else { break };
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
    fn give_back(&self, call: InCall<'_>, pool: &Pool, count: usize) {
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
