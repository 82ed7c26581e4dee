//! Scratch threads: real threads that are looked at, to learn how the C library lays a thread out.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use daiko_sys::Scope;
use daiko_sys::futex;
use daiko_sys::memory::Mapping;

use super::offset::{TlsOffset, at};
use super::unsupported::Unsupported;
use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes of the stack of a scratch thread.
const STACK: usize = 256 << 10;

/// A thread that sleeps until this is dropped.
pub(crate) struct Scratch {
    thread: libc::pthread_t,
    shared: Box<Shared>,
    /// The stack that the caller chose; `None`: the library chose one.
    stack: Option<Mapping>,
}

#[derive(Default)]
struct Shared {
    /// 1 once the thread sleeps; 2 once it shall end.
    stage: AtomicU32,
    /// The thread's id in the kernel.
    id: AtomicU32,
    /// The address of the thread's resolver state.
    resolver: AtomicUsize,
    /// The key that the thread sets a value for, plus one; 0: none.
    key: AtomicUsize,
    /// The words that the thread compares before and after it has used `malloc`.
    compared: Vec<TlsOffset>,
    /// Bit `i`: word `i` of those was 0 before, and is not any more.
    changed: AtomicU64,
}

impl Scratch {
    /// Starts a thread on a stack of the caller's.
    ///
    /// # Errors
    ///
    /// There is no memory, or no thread.
    pub(crate) fn on_own_stack() -> Result<Self, Unsupported> {
        let stack = Mapping::new(STACK, Scope::Private).map_err(Unsupported::Memory)?;
        Self::start(Some(stack), Shared::default())
    }

    /// Starts a thread that uses `malloc` and looks which of these words that fills: at most 64.
    ///
    /// # Errors
    ///
    /// As for [`on_own_stack`](Self::on_own_stack).
    pub(crate) fn with_malloc(compared: Vec<TlsOffset>) -> Result<Self, Unsupported> {
        Self::start(None, Shared { compared, ..Shared::default() })
    }

    /// Starts a thread on a stack of the library's.
    ///
    /// # Errors
    ///
    /// As for [`on_own_stack`](Self::on_own_stack).
    pub(crate) fn on_given_stack() -> Result<Self, Unsupported> {
        Self::start(None, Shared::default())
    }

    /// Starts a thread on a stack of the caller's, which has set a value for `key`.
    ///
    /// # Errors
    ///
    /// As for [`on_own_stack`](Self::on_own_stack).
    pub(crate) fn with_value(key: libc::pthread_key_t) -> Result<Self, Unsupported> {
        let stack = Mapping::new(STACK, Scope::Private).map_err(Unsupported::Memory)?;
        let key = AtomicUsize::new(key as usize + 1);
        Self::start(Some(stack), Shared { key, ..Shared::default() })
    }

    fn start(stack: Option<Mapping>, shared: Shared) -> Result<Self, Unsupported> {
        let shared = Box::new(shared);
        let argument = ptr::from_ref(&*shared).cast_mut().cast();
        let mut attributes = MaybeUninit::uninit();
        let (mut thread, at) = (0, attributes.as_mut_ptr());
        // SAFETY: the attributes are initialised first and destroyed last; the stack and what the
        // argument points to outlive the thread, which `Drop` joins.
        let started = unsafe {
            libc::pthread_attr_init(at);
            let set = match &stack {
                Some(stack) => {
                    libc::pthread_attr_setstack(at, stack.start().as_ptr().cast(), stack.len())
                }
                None => libc::pthread_attr_setstacksize(at, STACK),
            };
            let started = if set == 0 { create(&mut thread, at, argument) } else { set };
            libc::pthread_attr_destroy(at);
            started
        };
        if started != 0 {
            // Refused memory for a stack has the same error number as a refused thread.
            let memory = Mapping::new(2 * STACK, Scope::Private).map(drop);
            return Err(memory.map_or_else(Unsupported::Memory, |()| Unsupported::Thread));
        }
        let this = Self { thread, shared, stack };
        this.await_sleep();
        Ok(this)
    }

    fn await_sleep(&self) {
        // Acquire: pairs with the Release in `run`.
        while self.shared.stage.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(&self.shared.stage, 0, None, Scope::Private);
        }
    }

    /// Returns the address of the thread's control block.
    pub(crate) fn control_block(&self) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.thread as usize))
            .expect("a thread has a control block")
    }

    /// Returns the thread's id in the kernel.
    pub(crate) fn id(&self) -> u32 {
        self.shared.id.load(Ordering::Relaxed)
    }

    /// Returns the address of the thread's resolver state.
    pub(crate) fn resolver(&self) -> usize {
        self.shared.resolver.load(Ordering::Relaxed)
    }

    /// Returns the words that `malloc` has filled.
    pub(crate) fn filled(&self) -> Vec<TlsOffset> {
        let changed = self.shared.changed.load(Ordering::Relaxed);
        let words = self.shared.compared.iter().copied().enumerate();
        words.filter(|(index, _)| changed & 1 << index != 0).map(|(_, offset)| offset).collect()
    }

    /// Returns the addresses of the stack, if the caller chose it.
    pub(crate) fn stack(&self) -> Option<std::ops::Range<usize>> {
        let stack = self.stack.as_ref()?;
        let start = stack.start().addr().get();
        Some(start..start + stack.len())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.shared.stage.store(2, Ordering::Release);
        futex::wake(&self.shared.stage, 1, Scope::Private);
        // SAFETY: the thread was started joinable, and is joined once.
        unsafe { libc::pthread_join(self.thread, ptr::null_mut()) };
    }
}

unsafe extern "C" {
    fn __res_state() -> *mut c_void;
}

unsafe fn create(
    thread: &mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: `run` can be called with the argument, by this function's contract.
    unsafe { libc::pthread_create(thread, attributes, run, argument) }
}

/// Uses `malloc`, and returns a bit for each of these words of the calling thread that it fills.
fn filled_by_malloc(words: &[TlsOffset]) -> u64 {
    let pointer = daiko_context::seat::thread_pointer();
    let are_filled = || {
        words.iter().enumerate().fold(0, |bits, (index, &offset)| {
            // SAFETY: the words are thread-locals of the library.
            let word = unsafe { at::<usize>(pointer, offset).read_volatile() };
            bits | u64::from(word != 0) << index
        })
    };
    let before = are_filled();
    // SAFETY: the memory is freed at once.
    unsafe { libc::free(std::hint::black_box(libc::malloc(100))) };
    are_filled() & !before
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` passes the shared part, which outlives this thread.
    let shared = unsafe { &*argument.cast::<Shared>() };
    shared.id.store(daiko_sys::thread::id(), Ordering::Relaxed);
    // SAFETY: returns an address.
    shared.resolver.store(unsafe { __res_state() }.expose_provenance(), Ordering::Relaxed);
    if let Some(key) = shared.key.load(Ordering::Relaxed).checked_sub(1) {
        // SAFETY: the probe has made the key; its value is only compared.
        unsafe { libc::pthread_setspecific(key as libc::pthread_key_t, argument) };
    }
    if !shared.compared.is_empty() {
        shared.changed.store(filled_by_malloc(&shared.compared), Ordering::Relaxed);
    }
    // Release: pairs with the Acquire in `await_sleep`.
    shared.stage.store(1, Ordering::Release);
    futex::wake(&shared.stage, 1, Scope::Private);
    while shared.stage.load(Ordering::Acquire) != 2 {
        // A plain system call: the library's waits change the control block.
        let _ = futex::wait(&shared.stage, 1, None, Scope::Private);
    }
    ptr::null_mut()
}
