//! Blocks, from their building to their end.

use std::ffi::OsString;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use daiko_context::{FpControl, seat};
use daiko_sys::kernel_local;

use crate::abi::{Abi, Unsupported, at};
use crate::caches::Caches;
use crate::ending;
use crate::home::Homes;
use crate::identity;
use crate::light::{self, ThreadLocalsError};
use crate::renewal;
use crate::stacks::Stacks;
use crate::template::Template;

/// Proof that contexts can have blocks in this process: all probes have passed.
///
/// ```
/// match daiko_home::Blocks::get() {
///     Ok(blocks) => println!("a block takes {} bytes", blocks.bytes()),
///     Err(reason) => println!("no thread control blocks of our own: {reason}"),
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Blocks {
    maker: Maker,
    /// Bytes from a thread pointer to the end of its block, before it is aligned.
    above: usize,
    /// Alignment of a thread pointer.
    align: usize,
    /// Bytes below a thread pointer that are the block's, in whole lines.
    below: usize,
    /// The reason why the blocks are not light ones.
    instead: Option<&'static Unsupported>,
}

/// The part that differs between the kinds of blocks.
#[derive(Clone, Copy)]
enum Maker {
    Light(&'static Light),
    Home(&'static Homes),
}

/// A kind of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind {
    /// Built in memory, without a kernel thread.
    Light,
    /// The block of a real thread, which sleeps meanwhile: one for each context.
    Home,
}

/// The parts that build and renew light blocks.
struct Light {
    abi: Abi,
    stacks: Stacks,
    template: Template,
    caches: Caches,
}

impl Light {
    fn probe() -> Result<Self, Unsupported> {
        let abi = Abi::probe()?;
        let stacks = Stacks::probe(&abi)?;
        let caches = Caches::probe(&abi)?;
        // Last, as it stays in the list of the library.
        let template = Template::new(&abi, &stacks)?;
        Ok(Light { abi, stacks, template, caches })
    }
}

/// The address of a block: the thread pointer of the context that runs with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ThreadPointer(usize);

impl ThreadPointer {
    /// Returns that of the calling context.
    #[inline]
    pub fn of_caller() -> Self {
        ThreadPointer(seat::thread_pointer())
    }

    /// Returns the address.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.0
    }
}

/// Returns the blocks that are known, or else those that are found now. A failure is not kept.
fn known_or(
    known: &mut Option<Blocks>,
    find: impl FnOnce() -> Result<Blocks, Unsupported>,
) -> Result<Blocks, Unsupported> {
    match *known {
        Some(blocks) => Ok(blocks),
        None => Ok(*known.insert(find()?)),
    }
}

/// Returns true if the value of the environment variable asks for homes.
fn asks_for_homes(variable: Option<OsString>) -> Result<bool, Unsupported> {
    match variable {
        None => Ok(false),
        Some(kind) if kind == "home" => Ok(true),
        Some(value) => Err(Unsupported::Variable { value }),
    }
}

impl Blocks {
    /// Probes the C library, at the first call. Blocks are light where that is possible, unless the
    /// environment has `DAIKO_THREAD_BLOCKS=home`.
    ///
    /// # Errors
    ///
    /// The probe for light blocks that failed, if those for homes have failed as well. The value of
    /// that variable, if it is another one.
    pub fn get() -> Result<Self, Unsupported> {
        static CHOSEN: Mutex<Option<Blocks>> = Mutex::new(None);
        let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        known_or(&mut chosen, || {
            let asked = asks_for_homes(std::env::var_os("DAIKO_THREAD_BLOCKS"))?;
            Self::choose(asked, || Self::of(BlockKind::Light))
        })
    }

    fn choose(
        asked: bool,
        light: impl FnOnce() -> Result<Self, Unsupported>,
    ) -> Result<Self, Unsupported> {
        if asked {
            return Self::of(BlockKind::Home);
        }
        match light() {
            // Nor is there a thread for a home.
            Err(reason @ (Unsupported::Thread | Unsupported::Memory(_))) => Err(reason),
            Err(reason) => match Self::of(BlockKind::Home) {
                Ok(homes) => Ok(Blocks { instead: Some(Box::leak(Box::new(reason))), ..homes }),
                Err(_) => Err(reason),
            },
            light => light,
        }
    }

    /// Returns the blocks of this kind, for tests and measurements of both.
    ///
    /// # Errors
    ///
    /// The probe that failed.
    #[doc(hidden)]
    pub fn of(kind: BlockKind) -> Result<Self, Unsupported> {
        // One lock for both, so there is one probe at a time.
        static KNOWN: Mutex<[Option<Blocks>; 2]> = Mutex::new([None; 2]);
        if cfg!(daiko_sanitize) {
            return Err(Unsupported::Sanitizer);
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known_or(&mut known[kind as usize], || {
            let blocks = match kind {
                BlockKind::Light => Self::probe_light(),
                BlockKind::Home => Self::probe_homes(),
            }?;
            identity::wrap_handler();
            Ok(blocks)
        })
    }

    fn probe_light() -> Result<Self, Unsupported> {
        let light: &Light = Box::leak(Box::new(Light::probe()?));
        let abi = &light.abi;
        Ok(Blocks {
            maker: Maker::Light(light),
            above: abi.control_bytes,
            align: abi.align,
            below: (abi.bytes - abi.control_bytes).next_multiple_of(ALIGN.max(abi.align)),
            instead: None,
        })
    }

    fn probe_homes() -> Result<Self, Unsupported> {
        let homes: &Homes = Box::leak(Box::new(Homes::probe()?));
        Ok(Blocks {
            maker: Maker::Home(homes),
            above: homes.shape.above,
            align: homes.shape.align,
            below: homes.shape.below,
            instead: None,
        })
    }

    /// Returns the kind of the blocks.
    pub fn kind(self) -> BlockKind {
        match self.maker {
            Maker::Light(_) => BlockKind::Light,
            Maker::Home(_) => BlockKind::Home,
        }
    }

    /// Returns the probe for light blocks that failed, if the blocks are of another kind for that
    /// reason.
    pub fn instead_of_light(self) -> Option<&'static Unsupported> {
        self.instead
    }

    /// Returns the shape of a block, for debuggers: its bytes from the thread pointer on, the
    /// alignment of thread pointers, and its bytes below the thread pointer.
    pub fn shape(self) -> [usize; 3] {
        [self.above, self.align, self.below]
    }

    /// Returns the number of bytes that a block takes at the end of a stack, at most: it depends on
    /// the line at which the stack ends.
    #[inline]
    pub fn bytes(self) -> usize {
        self.above.next_multiple_of(ALIGN) + self.align.max(ALIGN) - ALIGN + self.below
    }

    /// Returns the least bytes from the lowest one of a stack to the end of its block. Frames need
    /// more.
    pub fn least_stack(self) -> usize {
        match self.maker {
            Maker::Light(_) => self.bytes(),
            Maker::Home(_) => self.bytes().max(Homes::least_stack()),
        }
    }

    /// Returns the thread pointer of the block that ends at `end`.
    #[inline]
    pub fn thread_pointer(self, end: NonNull<u8>) -> ThreadPointer {
        let last = end.addr().get() - self.above;
        ThreadPointer(last & !(self.align - 1))
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
    /// used for nothing else, until [`destroy`](Self::destroy); those from `stack` on are writable.
    pub unsafe fn build(self, end: NonNull<u8>, stack: *mut u8) -> Result<(), ThreadLocalsError> {
        end.as_ptr().expose_provenance();
        let pointer = self.thread_pointer(end).0;
        match self.maker {
            // SAFETY: by this function's contract; the pointer is aligned.
            Maker::Light(Light { abi, stacks, caches, .. }) => unsafe {
                light::build(abi, stacks, pointer, stack.addr(), 0)?;
                caches.adopt(pointer);
            },
            // SAFETY: by this function's contract.
            Maker::Home(homes) => unsafe { homes.build(end, stack) },
        }
        Ok(())
    }

    /// Makes the block that ends at `end` ready for a new context.
    ///
    /// # Errors
    ///
    /// [`ThreadLocalsError`]. Then no context may begin.
    ///
    /// # Safety
    ///
    /// [`build`](Self::build) has made it, nothing runs with it, and its stack is unused.
    #[inline]
    pub unsafe fn enter(self, end: NonNull<u8>) -> Result<(), ThreadLocalsError> {
        match self.maker {
            Maker::Light(_) => Ok(()),
            // SAFETY: by this function's contract.
            Maker::Home(homes) => unsafe { homes.start(end) },
        }
    }

    /// Frees the parts of the block that ends at `end` that are only for a context. Touches no
    /// thread-local.
    ///
    /// # Safety
    ///
    /// [`build`](Self::build) has made it, and nothing runs with it any more.
    #[inline]
    pub unsafe fn leave(self, end: NonNull<u8>) {
        if let Maker::Home(homes) = self.maker {
            // SAFETY: by this function's contract.
            unsafe { homes.leave(end) };
        }
    }

    /// Ends the block that ends at `end`.
    ///
    /// # Safety
    ///
    /// [`build`](Self::build) has made it, nothing runs with it any more, and it ends once.
    pub unsafe fn destroy(self, end: NonNull<u8>) {
        let pointer = self.thread_pointer(end).0;
        match self.maker {
            // SAFETY: by this function's contract.
            Maker::Light(Light { abi, stacks, caches, .. }) => unsafe {
                caches.leave(pointer);
                light::destroy(abi, stacks, pointer);
            },
            // SAFETY: by this function's contract.
            Maker::Home(homes) => unsafe { homes.finish(end) },
        }
    }

    /// Gives the block of the calling context the values of a new one, at the begin of the context,
    /// and the context the floating-point control words of a new process.
    ///
    /// # Safety
    ///
    /// The calling context runs with the block at `pointer`, which it has [entered](Self::enter).
    /// No code of the program has run in it, and its caller keeps no reference to a thread-local.
    pub unsafe fn begin(self, pointer: ThreadPointer) {
        match self.maker {
            Maker::Light(light) => {
                seat::keep_while(|| {
                    // SAFETY: by this function's contract.
                    unsafe { light.template.restore(pointer.0) };
                    kernel_local::mark_as_contexts();
                });
                // SAFETY: by this function's contract.
                unsafe { renewal::renew(&light.abi, pointer.0) };
            }
            // The thread is a new one.
            Maker::Home(_) => kernel_local::mark_as_contexts(),
        }
        // A context that is suspended may have left its rounding mode to this one.
        FpControl::reset();
    }

    /// Gives the block of a real thread, by a call of its context, the values of a new thread,
    /// before another thread of the program runs there. `lender` is the id of the kernel thread.
    /// The floating-point control words become those of a new process.
    ///
    /// # Safety
    ///
    /// The blocks are [light](BlockKind::Light): real threads have blocks of the same layout. The
    /// destructors of the former thread [have run](Self::end), no other code of the program runs
    /// with the block, and the caller keeps no reference to a thread-local.
    ///
    /// # Panics
    ///
    /// If the blocks are homes.
    pub unsafe fn renew_thread(self, lender: u32) {
        let Maker::Light(light) = self.maker else { panic!("the blocks are homes") };
        let pointer = ThreadPointer::of_caller();
        seat::keep_while(|| {
            // SAFETY: by this function's contract.
            unsafe { light.template.restore(pointer.0) };
            // In this order: a handler that finds a context's storage asks for the lender.
            kernel_local::mark_as_lent_by(lender);
            kernel_local::mark_as_contexts();
        });
        // SAFETY: by this function's contract.
        unsafe { renewal::renew(&light.abi, pointer.0) };
        FpControl::reset();
    }

    /// Returns true if the calling context holds no robust mutex, by its C library's list; false
    /// also if that list is not known.
    pub fn holds_no_robust_mutex(self) -> bool {
        let Maker::Light(Light { abi, .. }) = self.maker else { return false };
        abi.robust.is_some_and(|head| {
            let first = at::<usize>(ThreadPointer::of_caller().0, head as isize);
            // SAFETY: the head lies in the block of the calling context.
            unsafe { first.read() == first.addr() }
        })
    }

    /// Runs the destructors of the thread-locals and keys of the calling context, at its end. They
    /// are code of the program. The floating-point control words become those of a new process.
    ///
    /// # Safety
    ///
    /// The calling context runs with the block at `pointer`.
    pub unsafe fn end(self, pointer: ThreadPointer) {
        match self.maker {
            // SAFETY: by this function's contract.
            Maker::Light(light) => unsafe { ending::run_destructors(&light.abi, pointer.0) },
            // SAFETY: by this function's contract.
            Maker::Home(homes) => unsafe { homes.run_destructors() },
        }
        FpControl::reset();
    }
}

/// Alignment of the end of a block: a cache line.
const ALIGN: usize = 64;

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks").field("kind", &self.kind()).field("bytes", &self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_take_the_place_of_light_blocks_that_cannot_be_built() {
        let reason = Unsupported::Layout("the list");
        let homes = Blocks::choose(false, || Err(reason.clone())).unwrap();
        assert_eq!((homes.kind(), homes.instead_of_light()), (BlockKind::Home, Some(&reason)));
        let light = Blocks::choose(false, || Blocks::of(BlockKind::Light)).unwrap();
        let expected = if cfg!(target_arch = "x86_64") {
            (BlockKind::Light, None)
        } else {
            (BlockKind::Home, Some(&Unsupported::Processor))
        };
        assert_eq!((light.kind(), light.instead_of_light()), expected);
        let asked = Blocks::choose(true, || Blocks::of(BlockKind::Light)).unwrap();
        assert_eq!((asked.kind(), asked.instead_of_light()), (BlockKind::Home, None));
        // Another try may find a thread.
        let none = Blocks::choose(false, || Err(Unsupported::Thread));
        assert_eq!(none.unwrap_err(), Unsupported::Thread);
    }

    #[test]
    fn a_variable_that_names_no_kind_is_refused() {
        assert_eq!(asks_for_homes(None), Ok(false));
        assert_eq!(asks_for_homes(Some("home".into())), Ok(true));
        for value in ["", "Home", "home ", "light"] {
            let value = OsString::from(value);
            assert_eq!(asks_for_homes(Some(value.clone())), Err(Unsupported::Variable { value }));
        }
    }
}
