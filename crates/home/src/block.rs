//! Blocks, from their building to their end.

use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use daiko_context::{FpControl, seat};
use daiko_sys::kernel_local;

use crate::abi::{Abi, Unsupported, at};
use crate::caches::Caches;
use crate::ending;
use crate::identity;
use crate::light::{self, ThreadLocalsError};
use crate::renewal;
use crate::stacks::Stacks;
use crate::template::Template;

/// Proof that blocks can be built in this process: all probes have passed.
///
/// ```
/// match daiko_home::Blocks::get() {
///     Ok(blocks) => println!("a block takes {} bytes", blocks.bytes()),
///     Err(reason) => println!("no thread control blocks of our own: {reason}"),
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Blocks {
    abi: &'static Abi,
    stacks: &'static Stacks,
    template: &'static Template,
    caches: &'static Caches,
    /// Bytes of static thread-locals, which lie below the thread pointer, in whole lines.
    below: usize,
}

/// The address of a block: the thread pointer of the context that runs with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ThreadPointer(usize);

impl ThreadPointer {
    /// Returns the address.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.0
    }
}

impl Blocks {
    /// Probes the C library, at the first call.
    ///
    /// # Errors
    ///
    /// The probe that failed.
    pub fn get() -> Result<Self, Unsupported> {
        static BLOCKS: OnceLock<Blocks> = OnceLock::new();
        static PROBES: Mutex<()> = Mutex::new(());
        let _one = PROBES.lock().unwrap_or_else(PoisonError::into_inner);
        match BLOCKS.get() {
            Some(blocks) => Ok(*blocks),
            None => {
                let blocks = Self::probe()?;
                Ok(*BLOCKS.get_or_init(|| blocks))
            }
        }
    }

    fn probe() -> Result<Self, Unsupported> {
        let abi = Abi::probe()?;
        let stacks = Stacks::probe(&abi)?;
        let caches = Caches::probe(&abi)?;
        // Last, as it stays in the list of the library.
        let template = Template::new(&abi, &stacks)?;
        identity::wrap_handler();
        Ok(Blocks {
            below: (abi.bytes - abi.control_bytes).next_multiple_of(ALIGN.max(abi.align)),
            abi: Box::leak(Box::new(abi)),
            stacks: Box::leak(Box::new(stacks)),
            template: Box::leak(Box::new(template)),
            caches: Box::leak(Box::new(caches)),
        })
    }

    /// Returns the number of bytes that a block takes at the end of a stack.
    #[inline]
    pub fn bytes(self) -> usize {
        self.abi.control_bytes.next_multiple_of(self.abi.align) + self.below
    }

    /// Returns the thread pointer of the block that ends at `end`.
    #[inline]
    pub fn thread_pointer(self, end: NonNull<u8>) -> ThreadPointer {
        let last = end.addr().get() - self.abi.control_bytes;
        ThreadPointer(last & !(self.abi.align - 1))
    }

    /// Returns the lowest byte of the block that ends at `end`.
    #[inline]
    pub fn start(self, end: NonNull<u8>) -> *mut u8 {
        let start = self.thread_pointer(end).0 - self.below;
        end.as_ptr().with_addr(start)
    }

    /// Builds a block that ends at `end`, for a stack that begins below it and ends at `stack`.
    ///
    /// # Errors
    ///
    /// [`ThreadLocalsError`]. Then there is no block.
    ///
    /// # Safety
    ///
    /// `end` is a multiple of 64. The bytes from [`start`](Self::start) to `end` are writable and
    /// used for nothing else, until [`destroy`](Self::destroy).
    pub unsafe fn build(self, end: NonNull<u8>, stack: *mut u8) -> Result<(), ThreadLocalsError> {
        end.as_ptr().expose_provenance();
        let pointer = self.thread_pointer(end).0;
        // SAFETY: by this function's contract; the pointer is aligned.
        unsafe {
            light::build(self.abi, self.stacks, pointer, stack.addr(), 0)?;
            self.caches.adopt(pointer);
        }
        Ok(())
    }

    /// Ends the block that ends at `end`.
    ///
    /// # Safety
    ///
    /// [`build`](Self::build) has made it, nothing runs with it any more, and it ends once.
    pub unsafe fn destroy(self, end: NonNull<u8>) {
        // SAFETY: by this function's contract.
        unsafe {
            let pointer = self.thread_pointer(end).0;
            self.caches.leave(pointer);
            light::destroy(self.abi, self.stacks, pointer);
        }
    }

    /// Gives the block of the calling context the values of a new one, at the begin of the context,
    /// and the context the floating-point control words of a new process.
    ///
    /// # Safety
    ///
    /// The calling context runs with the block at `pointer`. No code of the program has run in it,
    /// and its caller keeps no reference to a thread-local.
    pub unsafe fn begin(self, pointer: ThreadPointer) {
        seat::keep_while(|| {
            // SAFETY: by this function's contract.
            unsafe { self.template.restore(pointer.0) };
            kernel_local::mark_as_contexts();
        });
        // SAFETY: by this function's contract.
        unsafe { renewal::renew(self.abi, pointer.0) };
        // A context that is suspended may have left its rounding mode to this one.
        FpControl::reset();
    }

    /// Forgets the values in the block at `pointer` that are those of a kernel thread, since its
    /// context goes on on another one.
    ///
    /// # Safety
    ///
    /// There is a block, and nothing runs with it at this time.
    pub unsafe fn moved(self, pointer: ThreadPointer) {
        // SAFETY: the library's own thread-local of that type, by this function's contract.
        unsafe { at::<u32>(pointer.0, self.abi.cached_id).write(0) };
    }

    /// Runs the destructors of the thread-locals and keys of the calling context, at its end. They
    /// are code of the program. The floating-point control words become those of a new process.
    ///
    /// # Safety
    ///
    /// The calling context runs with the block at `pointer`.
    pub unsafe fn end(self, pointer: ThreadPointer) {
        // SAFETY: by this function's contract.
        unsafe { ending::run_destructors(self.abi, pointer.0) };
        FpControl::reset();
    }
}

/// Alignment of the end of a block: a cache line.
const ALIGN: usize = 64;

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks").field("bytes", &self.bytes()).finish()
    }
}
