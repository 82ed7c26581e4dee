//! The values that thread-locals have in a new block.
//!
//! The template is a block that nothing runs with. It is in the list of the C library, so the
//! loader writes the thread-locals of each library that it loads later there as well. The bytes
//! that no module has yet hold a pattern. Once the pattern is broken next to the lowest module,
//! there is a new one, and the parts to copy are read again.

use std::alloc::{self, Layout};
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::abi::{Abi, TlsOffset, Unsupported, at};
use crate::atomic::{AtomicPtr, Ordering};
use crate::light;
use crate::modules::{self, Part};
use crate::stacks::Stacks;

/// The template of this process.
pub(crate) struct Template {
    pointer: usize,
    /// The parts to copy. Replaced, under the lock, when there is a new module; never freed, as
    /// other threads may be reading it.
    parts: AtomicPtr<Parts>,
    refresh: Mutex<()>,
}

struct Parts {
    parts: Vec<Part>,
    /// The first and the last word that are compared, as offsets: below the lowest module.
    compared: Range<TlsOffset>,
}

impl Parts {
    /// Reads the parts of the modules that are loaded now.
    fn read(abi: &Abi) -> Self {
        const WORD: isize = size_of::<u64>() as isize;
        let (parts, lowest) = modules::parts(abi);
        let bottom = bottom(abi);
        let end = lowest.div_euclid(WORD) * WORD;
        let start = (end - COMPARED as isize * WORD).max(bottom.div_euclid(WORD) * WORD + WORD);
        Parts { parts, compared: start.min(end)..end }
    }
}

/// Returns the lowest offset of a block.
fn bottom(abi: &Abi) -> TlsOffset {
    -((abi.bytes - abi.control_bytes) as isize)
}

/// Words below the lowest module that are compared: the largest gap in front of a new module,
/// unless it is aligned to more than a line, and a word of the module.
const COMPARED: usize = 9;
const PATTERN: u64 = 0xa5a5_a5a5_a5a5_a5a5;

impl Template {
    /// Returns the template, which is made at the first call.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub(crate) fn get(abi: &'static Abi, stacks: &Stacks) -> Result<&'static Self, Unsupported> {
        static TEMPLATE: OnceLock<Template> = OnceLock::new();
        static MAKE: Mutex<()> = Mutex::new(());
        let _one = MAKE.lock().unwrap_or_else(PoisonError::into_inner);
        match TEMPLATE.get() {
            Some(template) => Ok(template),
            None => {
                let template = Self::new(abi, stacks)?;
                Ok(TEMPLATE.get_or_init(|| template))
            }
        }
    }

    fn new(abi: &Abi, stacks: &Stacks) -> Result<Self, Unsupported> {
        const WHAT: Unsupported = Unsupported::Layout("the memory");
        let layout = Layout::from_size_align(abi.bytes + abi.align, abi.align.max(64));
        // SAFETY: the layout has bytes.
        let start = unsafe { alloc::alloc_zeroed(layout.map_err(|_| WHAT)?) };
        if start.is_null() {
            return Err(WHAT);
        }
        let below = (abi.bytes - abi.control_bytes).next_multiple_of(abi.align);
        let pointer = start.expose_provenance() + below;
        // SAFETY: the memory was just allocated, and is never freed.
        unsafe { light::build(abi, stacks, pointer, start.addr()) }.map_err(|_| WHAT)?;
        let parts = Parts::read(abi);
        for offset in (bottom(abi)..parts.compared.end - 7).step_by(8) {
            // SAFETY: inside the template, in bytes that no module has. The loader gives some of
            // them to a module that is loaded at this time, which is noticed like a later one.
            unsafe { at::<u64>(pointer, offset).write_unaligned(PATTERN) };
        }
        Ok(Template {
            pointer,
            parts: AtomicPtr::new(Box::into_raw(Box::new(parts))),
            refresh: Mutex::new(()),
        })
    }

    /// Gives the thread-locals of the block at `pointer` the values of a new one, those of the C
    /// library excepted.
    ///
    /// # Safety
    ///
    /// There is a block, and nothing else runs with it. The calling context, if it runs with it,
    /// keeps no reference to a thread-local.
    pub(crate) unsafe fn restore(&self, abi: &Abi, pointer: usize) {
        if !self.is_current() {
            self.refresh(abi);
        }
        for part in &self.parts().parts {
            let len = (part.end - part.start) as usize;
            // SAFETY: the part lies in both blocks, by the loader's word.
            unsafe {
                at::<u8>(pointer, part.start)
                    .copy_from_nonoverlapping(at::<u8>(self.pointer, part.start), len);
            }
        }
    }

    fn parts(&self) -> &Parts {
        // Acquire: pairs with the Release in `refresh`.
        // SAFETY: the parts are never freed.
        unsafe { &*self.parts.load(Ordering::Acquire) }
    }

    /// Returns true if no module has come since the parts were read.
    #[inline]
    fn is_current(&self) -> bool {
        let compared = self.parts().compared.clone();
        // SAFETY: aligned words inside the template. The loader may write there at this time, so
        // each word is read for itself.
        compared
            .step_by(size_of::<u64>())
            .all(|offset| unsafe { at::<u64>(self.pointer, offset).read_volatile() == PATTERN })
    }

    #[cold]
    #[inline(never)]
    fn refresh(&self, abi: &Abi) {
        let _one = self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_current() {
            return;
        }
        let parts = Box::into_raw(Box::new(Parts::read(abi)));
        // Release: pairs with the Acquire in `parts`.
        self.parts.store(parts, Ordering::Release);
    }
}
