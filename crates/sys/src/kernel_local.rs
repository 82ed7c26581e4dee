//! Thread-locals of kernel threads.
//!
//! A fiber may have thread-local storage of its own, which moves with it. A value that belongs to
//! the kernel thread is not found there: the fiber has another value under the same name. So the
//! runtime's own thread-locals come in by this door, and builds with debug assertions panic if a
//! context with storage of its own asks for one.

use std::cell::Cell;
use std::thread::LocalKey;

use crate::generation::Generation;
use crate::thread;

thread_local! {
    /// The generation of the processes in which this is the storage of a context that is no kernel
    /// thread; `None`: it is that of a thread. In a child that the context forks, it is the storage
    /// of the child's only thread.
    static OF_CONTEXT: Cell<Option<Generation>> = const { Cell::new(None) };
    /// The id of the kernel thread that has lent its storage to a context; 0: none has.
    static LENDER: Cell<u32> = const { Cell::new(0) };
}

/// Marks the thread-local storage of the calling context as one that belongs to the context, not to
/// a kernel thread.
pub fn mark_as_contexts() {
    OF_CONTEXT.set(Some(Generation::of_context()));
    thread::never_cache_id();
}

/// Marks the thread-local storage of the calling context as that of its kernel thread again.
pub fn mark_as_threads() {
    OF_CONTEXT.set(None);
}

/// Returns true if the calling context has thread-local storage of its own.
#[inline]
pub fn is_contexts() -> bool {
    OF_CONTEXT.get().is_some_and(Generation::is_current)
}

/// Notes that the kernel thread with this id lends the thread-local storage of the caller to a
/// context.
pub fn mark_as_lent_by(lender: u32) {
    LENDER.set(lender);
}

/// Returns true if the caller is the kernel thread that has lent the thread-local storage, not the
/// context. For signal handlers on that thread.
pub fn is_lender() -> bool {
    LENDER.get() == thread::id()
}

/// A thread-local that belongs to a kernel thread.
///
/// [`kernel_local!`](crate::kernel_local!) declares it.
#[derive(Debug)]
pub struct KernelLocal<T: 'static>(&'static LocalKey<T>);

/// Declares a [`KernelLocal`](crate::kernel_local::KernelLocal).
///
/// ```
/// use std::cell::Cell;
///
/// daiko_sys::kernel_local! {
///     static CALLS: Cell<u32> = const { Cell::new(0) };
/// }
/// CALLS.with(|calls| calls.set(1));
/// assert_eq!(CALLS.with(Cell::get), 1);
/// ```
#[macro_export]
macro_rules! kernel_local {
    ($(#[$doc:meta])* static $name:ident: $type:ty = const $value:block;) => {
        $(#[$doc])*
        static $name: $crate::kernel_local::KernelLocal<$type> =
            $crate::kernel_local::KernelLocal::new({
                ::std::thread_local!(static KEY: $type = const $value);
                &KEY
            });
    };
}

impl<T> KernelLocal<T> {
    /// Creates the door to a thread-local that has no other one.
    pub const fn new(key: &'static LocalKey<T>) -> Self {
        KernelLocal(key)
    }

    /// Calls `f` with the calling kernel thread's value.
    ///
    /// # Panics
    ///
    /// In builds with debug assertions, if the calling context has thread-local storage of its own.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        debug_assert!(!is_contexts(), "a fiber asks for a thread-local of a kernel thread");
        self.0.with(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::kernel_local! {
        static NUMBER: Cell<u32> = const { Cell::new(7) };
    }

    #[test]
    fn a_thread_is_a_lender_once_it_says_so() {
        let thread = std::thread::spawn(|| {
            let before = is_lender();
            mark_as_lent_by(thread::id());
            (before, is_lender())
        });
        assert_eq!(thread.join().unwrap(), (false, true));
        assert!(!is_lender());
    }

    #[test]
    fn a_context_with_storage_of_its_own_does_not_get_the_value() {
        let panics = std::thread::spawn(|| {
            assert_eq!(NUMBER.with(Cell::get), 7);
            mark_as_contexts();
            NUMBER.with(Cell::get)
        });
        assert_eq!(panics.join().is_err(), cfg!(debug_assertions));
        assert_eq!(NUMBER.with(Cell::get), 7);
    }
}
