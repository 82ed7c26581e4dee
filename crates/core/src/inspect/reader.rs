//! The reader of another process's runtimes, or of those of its own.
//!
//! All that it reads may be wrong: the process runs on meanwhile, or is hostile. Every length and
//! count is bounded before it is used, and no address is followed without end.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;

use super::memory::{
    MOST_STRUCT, Memory, Span, Struct, address, plain_text, read_field, read_text, read_words,
};
use super::row::{Context, FiberRow, FiberState, Place, RuntimeRow, Wait, WorkerRow};
use super::table::{self, Field, Found, FrameLayout, HeldLayout, MAGIC, Table, VERSION};

/// Most pages of the list of slabs, and most entries of one.
const MOST_PAGES: usize = 1 << 14;
const MOST_ENTRIES: u64 = 1 << 10;
/// Most blocks that are looked at.
const MOST_BLOCKS: u64 = 1 << 25;
/// Most runtimes, workers of one, and batches of lent blocks of one.
const MOST_RUNTIMES: u64 = 1 << 12;
const MOST_WORKERS: u64 = 1 << 12;
const MOST_BATCHES: usize = 1 << 16;
/// Most bytes of a name, and of a path of a source file.
const MOST_NAME: u64 = 256;
const MOST_PATH: u64 = 1 << 12;
/// Number of blocks that are read at once.
const AT_ONCE: usize = 256;
/// Most bytes of a stack.
const MOST_STACK: u64 = 1 << 31;

/// A reason to read no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableRefused {
    /// The memory of the table cannot be read.
    Unreadable,
    /// There is no table at the address.
    NoTable,
    /// The table is of this version, which the reader does not know.
    Version(u32),
    /// The table contradicts itself.
    Malformed,
}

impl fmt::Display for TableRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableRefused::Unreadable => f.write_str("its memory cannot be read"),
            TableRefused::NoTable => f.write_str("it has no table of runtimes"),
            TableRefused::Version(version) => write!(
                f,
                "its table of runtimes has version {version}, and this program knows {VERSION}; use the one of its release"
            ),
            TableRefused::Malformed => f.write_str("its table of runtimes contradicts itself"),
        }
    }
}

/// The reader of one process's runtimes.
pub struct Reader<M> {
    memory: M,
    table: Table,
    found: Found,
    wait_kinds: Vec<Rc<str>>,
    counter_names: Vec<String>,
    release: String,
}

/// A block that may be a fiber's.
struct FoundBlock<'b> {
    id: u64,
    block: Struct<&'b [u8]>,
    /// The end of the stack, if the block lies there.
    top: Option<u64>,
}

/// The slab of an entry in the list.
struct Slab {
    start: u64,
    stride: u64,
    count: u64,
}

impl<M: Memory> Reader<M> {
    /// Begins to read the process with this memory, and with its table at `at`.
    ///
    /// # Errors
    ///
    /// There is no table of a known version.
    pub fn new(memory: M, at: u64) -> Result<Self, TableRefused> {
        let mut head = [0; 16];
        if !memory.read(at, &mut head) {
            return Err(TableRefused::Unreadable);
        }
        if head[..8] != MAGIC {
            return Err(TableRefused::NoTable);
        }
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if version != VERSION {
            return Err(TableRefused::Version(version));
        }
        let table: Table =
            table::read_plain(|into| memory.read(at, into)).ok_or(TableRefused::Unreadable)?;
        if table.bytes as usize != size_of::<Table>() || !is_sound(&table) {
            return Err(TableRefused::Malformed);
        }
        let found = table::read_plain(|into| memory.read(address(table.found), into));
        let words = |words| read_words(&memory, words);
        let (wait_kinds, counter_names, release) =
            (words(table.wait_kinds), words(table.worker.counter_names), words(table.release));
        let wait_kinds = wait_kinds.ok_or(TableRefused::Malformed)?;
        Ok(Reader {
            table,
            found: found.ok_or(TableRefused::Malformed)?,
            wait_kinds: wait_kinds.iter().map(|kind| Rc::from(kind.as_str())).collect(),
            counter_names: counter_names.ok_or(TableRefused::Malformed)?,
            release: release.ok_or(TableRefused::Malformed)?.join(" "),
            memory,
        })
    }

    /// Returns the memory that it reads.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the target of a wait, from its word.
    pub(super) fn wait_of(&self, target: u64) -> Option<Wait> {
        let kind = self.wait_kinds.get((target >> 56) as usize)?;
        Some(Wait { kind: Rc::clone(kind), object: target & ((1 << 56) - 1) })
    }

    /// Returns the version of the process's runtime.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Returns the names of the workers' counters.
    pub fn counter_names(&self) -> &[String] {
        &self.counter_names
    }

    /// Returns the runtimes that are listed, with their workers.
    pub fn runtimes(&self) -> Vec<RuntimeRow> {
        let layout = &self.table.runtime;
        let listed = address(layout.listed);
        let pointers = (0..layout.most_listed).filter_map(|index| {
            let pointer = Field { offset: 0, bytes: 8 };
            read_field(&self.memory, listed.checked_add(index * 8)?, pointer)
        });
        pointers.filter(|&runtime| runtime != 0).filter_map(|id| self.runtime(id)).collect()
    }

    /// Returns the workers of all runtimes that are listed.
    pub fn workers(&self) -> impl Iterator<Item = WorkerRow> {
        self.runtimes().into_iter().flat_map(|runtime| runtime.workers)
    }

    /// Reads the runtime at `id`.
    pub fn runtime(&self, id: u64) -> Option<RuntimeRow> {
        let (layout, worker) = (&self.table.runtime, &self.table.worker);
        let first = read_field(&self.memory, id, layout.workers)?;
        let count = read_field(&self.memory, id, layout.worker_count)?.min(MOST_WORKERS);
        let workers = (0..count).map_while(|index| {
            let at = first.checked_add(index * worker.bytes)?;
            self.worker(at)
        });
        Some(RuntimeRow { id, workers: workers.collect() })
    }

    fn worker(&self, id: u64) -> Option<WorkerRow> {
        let layout = &self.table.worker;
        let worker = Struct::read(&self.memory, id, layout.bytes)?;
        let counters = layout.counters;
        let counter = |index| {
            let offset = counters.offset + 8 * index;
            worker.get(Field { offset, bytes: 8 })
        };
        let running = worker.get(layout.running);
        Some(WorkerRow {
            id,
            index: worker.get(layout.index) as u32,
            running: (running != 0).then_some(running),
            thread: worker.get(layout.thread) as u32,
            is_active: worker.get(layout.active) != 0,
            is_stuck: worker.get(layout.stuck) != 0,
            counters: (0..counters.bytes / 8).map(counter).collect(),
        })
    }

    /// Returns all runtimes and all fibers. The process may go on meanwhile: each row is right for
    /// itself, at a moment of its own.
    pub fn all(&self) -> (Vec<RuntimeRow>, Vec<FiberRow>) {
        let mut runtimes = self.runtimes();
        let mut fibers = Fibers::new(self, &runtimes);
        self.each_block(&runtimes, |found| fibers.add(found));
        let Fibers { rows, .. } = fibers;
        let known: HashSet<u64> = runtimes.iter().map(|runtime| runtime.id).collect();
        let others: HashSet<u64> =
            rows.iter().map(|row| row.runtime).filter(|id| !known.contains(id)).collect();
        let others = others.into_iter().take(MOST_RUNTIMES as usize);
        runtimes.extend(others.filter_map(|id| self.runtime(id)));
        (runtimes, rows)
    }

    /// Returns the row of `fiber` as it is now; `None` if it is gone.
    pub fn look_again(&self, fiber: &FiberRow, runtimes: &[RuntimeRow]) -> Option<FiberRow> {
        let block = Struct::read(&self.memory, fiber.id, self.table.block.bytes)?;
        let mut fibers = Fibers::new(self, runtimes);
        fibers.add(&[FoundBlock { id: fiber.id, block: block.as_ref(), top: fiber.top }]);
        fibers.rows.pop()
    }

    /// Calls `each` with all blocks that may be fibers', some at a time.
    fn each_block(&self, runtimes: &[RuntimeRow], mut each: impl FnMut(&[FoundBlock<'_>])) {
        let (layout, mut left) = (&self.table.block, MOST_BLOCKS);
        let mut bytes = vec![0; AT_ONCE * layout.bytes as usize];
        // Calls `each` with the blocks at `ids`, up to the first that has never been in use.
        let mut some = |ids: &[u64], lie_on_stack: bool| {
            let len = layout.bytes as usize;
            let spans: Vec<_> = ids.iter().map(|&start| Span { start, len }).collect();
            let read = self.memory.read_each(&spans, &mut bytes[..ids.len() * len]);
            let blocks = ids.iter().zip(bytes.chunks(len)).take(read).map(|(&id, block)| {
                FoundBlock { id, block: Struct::of(block), top: lie_on_stack.then_some(id) }
            });
            let blocks: Vec<_> =
                blocks.take_while(|found| found.block.get(layout.runtime) != 0).collect();
            each(&blocks);
            blocks.len() == ids.len()
        };
        self.each_slab(|slab| {
            // Stacks are used in their order.
            let mut ids = (0..slab.count.min(left)).map(|index| self.block_of(&slab, index));
            loop {
                let some_ids: Vec<_> = ids.by_ref().take(AT_ONCE).collect();
                left -= some_ids.len() as u64;
                if some_ids.is_empty() || !some(&some_ids, true) {
                    break;
                }
            }
        });
        let lent = self.table.runtime;
        let count = (u64::from(lent.lent_blocks.bytes) / layout.bytes).min(AT_ONCE as u64);
        for runtime in runtimes {
            let mut batch = read_field(&self.memory, runtime.id, lent.lent).unwrap_or(0);
            for _ in 0..MOST_BATCHES {
                if batch == 0 {
                    break;
                }
                let first = batch.wrapping_add(u64::from(lent.lent_blocks.offset));
                let ids = (0..count).map(|index| first.wrapping_add(index * layout.bytes));
                some(&ids.collect::<Vec<_>>(), false);
                batch = read_field(&self.memory, batch, lent.lent_next).unwrap_or(0);
            }
        }
    }

    /// Returns the address of the block at the top of a stack.
    fn block_of(&self, slab: &Slab, index: u64) -> u64 {
        let slabs = &self.table.slabs;
        let end = slab.start + (index + 1) * slab.stride;
        end - index % slabs.colours * slabs.colour_bytes - self.table.block.bytes
    }

    fn each_slab(&self, mut each: impl FnMut(Slab)) {
        let list = &self.table.slabs;
        let (mut page, mut seen) = (address(list.first), HashSet::new());
        let entries = (u64::from(list.entries.bytes) / list.entry_bytes).min(MOST_ENTRIES);
        while page != 0 && seen.len() < MOST_PAGES && seen.insert(page) {
            let first = page.wrapping_add(u64::from(list.entries.offset));
            for index in 0..entries {
                let at = first.wrapping_add(index * list.entry_bytes);
                if let Some(slab) = self.slab(at) {
                    each(slab);
                }
            }
            page = read_field(&self.memory, page, list.next).unwrap_or(0);
        }
    }

    /// Reads the entry at `at`. `None`: it is not in use, or no slab that there can be.
    fn slab(&self, at: u64) -> Option<Slab> {
        let list = &self.table.slabs;
        let entry = Struct::read(&self.memory, at, list.entry_bytes)?;
        let (start, len) = (entry.get(list.start), entry.get(list.len));
        let (size, guard) = (entry.get(list.size), entry.get(list.guard));
        let is_used = start > 1 && size < MOST_STACK && guard < MOST_STACK;
        let least = self.table.block.bytes + list.colours * list.colour_bytes;
        let stride = size + guard;
        let is_sound = is_used && size > least && start.checked_add(len).is_some();
        is_sound.then(|| Slab { start, stride, count: len / stride })
    }

    pub(super) fn place(&self, at: u64) -> Option<Place> {
        let known = |fact: u32| {
            let offset = fact & !Found::KNOWN;
            (fact & Found::KNOWN != 0).then_some(offset)
        };
        let word =
            |fact, bytes| read_field(&self.memory, at, Field { offset: known(fact)?, bytes });
        let found = &self.found;
        let (file, len) = (word(found.location_file, 8)?, word(found.location_len, 8)?);
        if len > MOST_PATH {
            return None;
        }
        Some(Place {
            file: read_text(&self.memory, file, len)?,
            line: word(found.location_line, 4)? as u32,
            column: word(found.location_column, 4)? as u32,
        })
    }

    /// Returns the place of a fiber's name, if it has one.
    fn name(&self, found: &FoundBlock<'_>, is_own: bool) -> Option<Span> {
        let len = found.block.get(self.table.block.name_end).checked_sub(1)?;
        let facts = &self.found;
        let align = u64::from(facts.thread_block_align);
        let end = match is_own {
            true if align.is_power_of_two() => {
                let above = u64::from(facts.thread_block_above);
                let pointer = found.id.wrapping_sub(above) & !(align - 1);
                pointer.wrapping_sub(u64::from(facts.thread_block_below))
            }
            true => return None,
            false => found.id,
        };
        (len <= MOST_NAME).then(|| Span { start: end.wrapping_sub(len), len: len as usize })
    }

    /// Returns the registers of `fiber` and its stack, as far as it is in use, if it is off its
    /// stack and has not moved since the row was read.
    pub fn context(&self, fiber: &FiberRow) -> Option<(Context, Vec<u8>)> {
        let layout = &self.table.block;
        let block = Struct::read(&self.memory, fiber.id, layout.bytes)?;
        if self.step(&block) != fiber.step {
            return None;
        }
        let kind = block.get(layout.kind);
        let frame = match kind & layout.kind_own {
            0 => &self.table.frame,
            _ => &self.table.own_frame,
        };
        let pointer = block.get(layout.stack_pointer);
        let saved = Struct::read(&self.memory, pointer, u64::from(frame.bytes))?;
        let word = |offset| saved.get(Field { offset, bytes: 8 });
        let stack_pointer = pointer.checked_add(u64::from(frame.bytes))?;
        let thread_pointer = (frame.thread_pointer != u32::MAX).then(|| word(frame.thread_pointer));
        let context = Context {
            instruction_pointer: word(frame.instruction_pointer),
            stack_pointer,
            frame_pointer: word(frame.frame_pointer),
        };
        let stack = self.stack(fiber, stack_pointer, thread_pointer);
        let stack = stack.or_else(|| self.pooled_stack(stack_pointer))?;
        let again = Struct::read(&self.memory, fiber.id, layout.bytes)?;
        (self.step(&again) == fiber.step).then_some((context, stack))
    }

    /// Returns the stack of `fiber` from `stack_pointer` on; `None`: the pointer is elsewhere.
    /// `thread_pointer` is that of the thread which the fiber is, if it is one.
    pub fn stack(
        &self,
        fiber: &FiberRow,
        stack_pointer: u64,
        thread_pointer: Option<u64>,
    ) -> Option<Vec<u8>> {
        const LENT_STACK: u64 = 64 << 10;
        let end = match (fiber.top, thread_pointer) {
            (Some(top), _) => top,
            // The stack of a kernel thread ends at its control block.
            (None, Some(own))
                if own.checked_sub(stack_pointer).is_some_and(|used| used < MOST_STACK) =>
            {
                own
            }
            (None, _) => stack_pointer.checked_add(LENT_STACK)?,
        };
        let used = end.checked_sub(stack_pointer).filter(|&used| used < MOST_STACK)?;
        let stack = self.memory.read_up_to(Span { start: stack_pointer, len: used as usize });
        // With a hole in it, the pointer is on the stack of another fiber. That of an initial
        // thread may end before.
        let is_sound = fiber.top.is_none() || stack.len() as u64 == used;
        (is_sound && !stack.is_empty()).then_some(stack)
    }

    /// Returns the stack of a pool from `stack_pointer` on, on which a fiber makes a call.
    fn pooled_stack(&self, stack_pointer: u64) -> Option<Vec<u8>> {
        let mut end = None;
        self.each_slab(|slab| {
            let index = stack_pointer.checked_sub(slab.start).map(|bytes| bytes / slab.stride);
            if let Some(index) = index.filter(|&index| index < slab.count) {
                end = Some(self.block_of(&slab, index));
            }
        });
        let used = end?.checked_sub(stack_pointer)?;
        let stack = self.memory.read_up_to(Span { start: stack_pointer, len: used as usize });
        (!stack.is_empty() && stack.len() as u64 == used).then_some(stack)
    }

    /// Returns the words of a block that change with each step of its fiber.
    fn step<B: AsRef<[u8]>>(&self, block: &Struct<B>) -> [u64; 3] {
        let layout = &self.table.block;
        [block.get(layout.stack_pointer), block.get(layout.owner), block.get(layout.state)]
    }
}

/// Returns true if the layouts are such that the arithmetic on them cannot fail.
fn is_sound(table: &Table) -> bool {
    let is_frame = |frame: &FrameLayout| frame.bytes <= 256;
    let (list, block) = (&table.slabs, &table.block);
    let are_sets = |held: &HeldLayout| {
        (1..=MOST_STRUCT).contains(&held.slot_bytes)
            && held.set_bytes <= MOST_STRUCT
            && held.set_count <= MOST_STRUCT
    };
    (1..=MOST_STRUCT).contains(&block.bytes)
        && (1..=MOST_STRUCT).contains(&table.worker.bytes)
        && (1..=MOST_STRUCT).contains(&list.entry_bytes)
        && (1..=1 << 10).contains(&list.colours)
        && list.colour_bytes <= 1 << 12
        && u64::from(list.entries.bytes) <= MOST_STRUCT
        && u64::from(table.runtime.lent_blocks.bytes) <= MOST_STRUCT
        && table.runtime.most_listed <= MOST_RUNTIMES
        && table.worker.counters.bytes <= 1 << 12
        && u64::from(table.worker.counters.offset) <= MOST_STRUCT
        && are_sets(&table.held)
        && (1..=MOST_STRUCT).contains(&table.thread_waits.slot_bytes)
        && table.thread_waits.slot_count <= MOST_STRUCT / table.thread_waits.slot_bytes
        && is_frame(&table.frame)
        && is_frame(&table.own_frame)
}

/// The rows of fibers as they are read, with the facts that many of them share.
struct Fibers<'r, M> {
    reader: &'r Reader<M>,
    /// The worker of each fiber that runs.
    running: HashMap<u64, u64>,
    /// Places by their addresses.
    places: HashMap<u64, Option<Rc<Place>>>,
    rows: Vec<FiberRow>,
}

impl<'r, M: Memory> Fibers<'r, M> {
    fn new(reader: &'r Reader<M>, runtimes: &[RuntimeRow]) -> Self {
        let workers = runtimes.iter().flat_map(|runtime| &runtime.workers);
        let running = workers.filter_map(|worker| Some((worker.running?, worker.id))).collect();
        Fibers { reader, running, places: HashMap::new(), rows: Vec::new() }
    }

    /// Adds the fibers of blocks that are in use.
    fn add(&mut self, found: &[FoundBlock<'_>]) {
        let (first, layout) = (self.rows.len(), &self.reader.table.block);
        let mut names = Vec::new();
        for found in found {
            let block = &found.block;
            if block.get(layout.refs) & layout.refs_count == 0 || block.get(layout.runtime) == 0 {
                continue;
            }
            let row = self.row(found);
            let is_own = block.get(layout.kind) & layout.kind_own != 0;
            if let Some(name) = self.reader.name(found, is_own && !row.is_lent) {
                names.push((self.rows.len(), name));
            }
            self.rows.push(row);
        }
        self.read_names(&names);
        for row in self.rows[first..].iter_mut().filter(|row| row.is_lent) {
            row.thread = self.reader.thread_of_lent(row);
        }
    }

    fn row(&mut self, found: &FoundBlock<'_>) -> FiberRow {
        let (reader, block) = (self.reader, &found.block);
        let layout = &reader.table.block;
        let kind = block.get(layout.kind);
        let is_lent = kind & layout.kind_lent != 0;
        let (state, worker) = self.state(found.id, block);
        let place = block.get(layout.spawned_at);
        let place = self.places.entry(place).or_insert_with(|| reader.place(place).map(Rc::new));
        FiberRow {
            id: found.id,
            runtime: block.get(layout.runtime),
            state,
            name: None,
            spawned_at: place.clone(),
            wait: self.wait(block, state),
            worker,
            is_migratable: kind & layout.kind_migratable != 0,
            is_lent,
            thread: None,
            step: reader.step(block),
            top: found.top.filter(|_| !is_lent),
        }
    }

    /// Reads the names of rows.
    fn read_names(&mut self, mut names: &[(usize, Span)]) {
        while !names.is_empty() {
            let spans: Vec<_> = names.iter().map(|(_, span)| *span).collect();
            let mut bytes = vec![0; spans.iter().map(|span| span.len).sum()];
            let (read, mut rest) =
                (self.reader.memory.read_each(&spans, &mut bytes), bytes.as_slice());
            for (row, span) in &names[..read] {
                let (name, later) = rest.split_at(span.len);
                self.rows[*row].name = Some(plain_text(name).into());
                rest = later;
            }
            // One that cannot be read is left out.
            names = names.get(read + 1..).unwrap_or_default();
        }
    }

    fn state<B: AsRef<[u8]>>(&self, id: u64, block: &Struct<B>) -> (FiberState, Option<u64>) {
        let layout = &self.reader.table.block;
        let owner = block.get(layout.owner);
        if owner & !layout.owner_early == 0 {
            return (FiberState::Unstarted, None);
        }
        let worker = Some(owner & !(layout.owner_finished | layout.owner_early));
        if owner & layout.owner_finished != 0 {
            return (FiberState::Finished, worker);
        }
        let state = match block.get(layout.state) & layout.state_phase {
            0 => match self.running.get(&id) {
                Some(&worker) => return (FiberState::Running, Some(worker)),
                None => FiberState::Runnable,
            },
            phase if phase == layout.state_parked => FiberState::Parked,
            _ => FiberState::Waiting,
        };
        (state, worker)
    }

    fn wait<B: AsRef<[u8]>>(&self, block: &Struct<B>, state: FiberState) -> Option<Wait> {
        match state {
            FiberState::Parked => Some(Wait { kind: "park".into(), object: 0 }),
            FiberState::Waiting => self.reader.wait_of(block.get(self.reader.table.block.target)),
            _ => None,
        }
    }
}

impl<M: Memory> Reader<M> {
    /// Returns the kernel's id of the thread that has lent its context as this fiber.
    fn thread_of_lent(&self, fiber: &FiberRow) -> Option<u32> {
        let offset = self.found.thread_id;
        if offset & Found::KNOWN == 0 || !fiber.state.is_suspended() {
            return None;
        }
        let frame = self.table.own_frame.thread_pointer;
        let pointer = read_field(&self.memory, fiber.step[0], Field { offset: frame, bytes: 8 })?;
        let id = Field { offset: offset & !Found::KNOWN, bytes: 4 };
        read_field(&self.memory, pointer, id).map(|id| id as u32)
    }
}
