//! The values that thread-locals have in a new block.
//!
//! The template is a block that nothing runs with. It is in the list of the C library, so the
//! loader writes the thread-locals of each library that it loads later there as well. The bytes
//! that no module has yet hold a pattern, so the lowest byte without it is where the modules
//! begin. Once the pattern is broken further below, there is a new one.
//!
//! ```text
//! bottom        lowest         first           library           thread pointer
//! | pattern ... | loaded later | loaded before | C library |     | control block
//! ```
//!
//! Everything from `lowest` on is copied, but for the part of the C library. The loader is not
//! asked for the modules: it answers for the calling context, which knows a module only once it
//! has used it in certain ways.

use std::alloc::{self, Layout};
use std::sync::{Mutex, PoisonError};

use crate::abi::{Abi, TlsOffset, Unsupported, at};
use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::light;
use crate::modules::{self, Part};
use crate::stacks::Stacks;

/// The template of this process.
pub(crate) struct Template {
    pointer: usize,
    /// The lowest offset.
    bottom: TlsOffset,
    /// The lowest offset of a module that was there before the template.
    first: TlsOffset,
    /// The part of the C library, which is not copied.
    library: Part,
    /// Bytes from the lowest offset of any module to the thread pointer: the pattern lies below.
    /// It only grows, under the lock.
    used: AtomicUsize,
    refresh: Mutex<()>,
}

/// Bytes below the lowest module that are compared: the largest gap in front of a new module,
/// unless it is aligned to more than a line, and its last word.
const COMPARED: usize = LINE as usize + size_of::<u64>();
const LINE: isize = 64;
const PATTERN: u8 = 0xa5;

impl Template {
    /// Makes the template, which stays for good.
    ///
    /// # Errors
    ///
    /// There is no memory for it, or the part of the C library is not found.
    pub(crate) fn new(abi: &Abi, stacks: &Stacks) -> Result<Self, Unsupported> {
        const WHAT: Unsupported = Unsupported::Layout("the memory");
        const LIBRARY: Unsupported = Unsupported::Layout("the thread-locals");
        let library = modules::library(abi).ok_or(LIBRARY)?;
        let layout = Layout::from_size_align(abi.bytes + COMPARED, abi.align.max(64));
        // SAFETY: the layout has bytes.
        let start = unsafe { alloc::alloc_zeroed(layout.map_err(|_| WHAT)?) };
        if start.is_null() {
            return Err(WHAT);
        }
        let below = (abi.bytes - abi.control_bytes).next_multiple_of(abi.align);
        let pointer = start.expose_provenance() + below;
        let bottom = -((abi.bytes - abi.control_bytes) as isize);
        // SAFETY: the memory was just allocated, and is never freed.
        let built = unsafe { light::build(abi, stacks, pointer, start.addr(), PATTERN) };
        built.map_err(|_| WHAT)?;
        let first = lowest_in(pointer, bottom).min(library.start);
        let (used, refresh) = (AtomicUsize::new(first.unsigned_abs()), Mutex::new(()));
        Ok(Template { pointer, bottom, first, library, used, refresh })
    }

    /// Gives the thread-locals of the block at `pointer` the values of a new one, those of the C
    /// library excepted.
    ///
    /// # Safety
    ///
    /// There is a block, and nothing else runs with it. The calling context, if it runs with it,
    /// keeps no reference to a thread-local.
    pub(crate) unsafe fn restore(&self, pointer: usize) {
        if !self.is_current() {
            self.refresh();
        }
        // SAFETY: the parts lie in both blocks, by this function's contract.
        unsafe {
            self.copy(pointer, self.first..self.library.start);
            self.copy(pointer, self.library.end..0);
        }
        let lowest = self.lowest();
        if lowest < self.first {
            // SAFETY: as above.
            unsafe { self.restore_later(pointer, lowest..self.first) };
        }
    }

    /// Copies the part of modules that may come and go at this time.
    ///
    /// The loader writes new values into the template first, as it was entered before all blocks.
    /// So if the template is unchanged after the copy, the loader's writes to the block follow the
    /// copy.
    ///
    /// # Safety
    ///
    /// As for [`restore`](Self::restore).
    #[cold]
    unsafe fn restore_later(&self, pointer: usize, part: Part) {
        loop {
            // SAFETY: by this function's contract.
            unsafe { self.copy(pointer, part.clone()) };
            // Pairs with the order of the loader's writes.
            fence(Ordering::SeqCst);
            let is_copied = |offset| {
                let (from, to) = (at::<u8>(self.pointer, offset), at::<u8>(pointer, offset));
                // SAFETY: in both blocks. The loader may write there at this time, so each byte is
                // read for itself.
                unsafe { from.read_volatile() == to.read_volatile() }
            };
            if part.clone().all(is_copied) {
                return;
            }
        }
    }

    /// Copies a part to the block at `pointer`.
    ///
    /// # Safety
    ///
    /// As for [`restore`](Self::restore), and the part lies in the blocks.
    unsafe fn copy(&self, pointer: usize, part: Part) {
        let from = at::<u8>(self.pointer, part.start);
        let bytes = (part.end - part.start) as usize;
        // SAFETY: by this function's contract.
        unsafe { at::<u8>(pointer, part.start).copy_from_nonoverlapping(from, bytes) };
    }

    /// Returns the lowest offset of any module.
    #[inline]
    fn lowest(&self) -> TlsOffset {
        -(self.used.load(Ordering::Relaxed) as isize)
    }

    /// Returns true if no module has come below the lowest one.
    #[inline]
    fn is_current(&self) -> bool {
        const WORDS: isize = (COMPARED / size_of::<u64>()) as isize;
        let lowest = self.lowest();
        let words = (lowest - self.bottom) / size_of::<u64>() as isize;
        // The first case has a number of steps that the compiler knows.
        if words >= WORDS {
            self.has_pattern_below(lowest, WORDS)
        } else {
            self.has_pattern_below(lowest, words)
        }
    }

    /// Returns true if so many words below `offset`, which are in the template, have the pattern.
    #[inline(always)]
    fn has_pattern_below(&self, offset: TlsOffset, words: isize) -> bool {
        let pattern = u64::from_ne_bytes([PATTERN; 8]);
        let below = at::<u64>(self.pointer, offset);
        let differences = (1..=words).fold(0, |all, index| {
            // SAFETY: inside the template, and aligned, as the lowest offset begins a line or there
            // is no word. The loader may write there at this time, so each word is read for itself.
            all | (unsafe { below.offset(-index).read_volatile() } ^ pattern)
        });
        differences == 0
    }

    /// Looks where the lowest module begins. If the loader is still writing it, the pattern is
    /// found broken again.
    #[cold]
    #[inline(never)]
    fn refresh(&self) {
        let _one = self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        let lowest = lowest_in(self.pointer, self.bottom);
        self.used.store(lowest.min(self.lowest()).unsigned_abs(), Ordering::Relaxed);
    }
}

/// Returns the start of the first line without the pattern in the template at `pointer`: the
/// lowest module may begin with bytes like the pattern.
fn lowest_in(pointer: usize, bottom: TlsOffset) -> TlsOffset {
    // SAFETY: inside the template. The loader may write there, so each byte is read for itself.
    let is_used =
        |&offset: &TlsOffset| unsafe { at::<u8>(pointer, offset).read_volatile() != PATTERN };
    let lowest = (bottom..0).find(is_used).unwrap_or(0);
    (lowest & -LINE).max(bottom)
}
