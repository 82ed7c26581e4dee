//! Statics that all processes of a program have in common.

use std::ops::Deref;
use std::ptr::{self, NonNull};

use super::heap;
use crate::atomic::{AtomicPtr, Ordering};

/// Declares statics that all processes of the program have in common; an ordinary static exists
/// once in each process.
///
/// Each is a [`process::Static`](crate::process::Static), which dereferences to the value. The
/// value is made at the first use. If several processes are first at once, each makes a value, and
/// one of these is kept. It is never dropped. In a program without a
/// [`SharedHeap`](crate::process::SharedHeap) these are statics like any other.
///
/// ```
/// # use daiko_rt as daiko;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// daiko::shared! {
///     /// Requests that were served.
///     static SERVED: AtomicU64 = AtomicU64::new(0);
/// }
///
/// SERVED.fetch_add(1, Ordering::Relaxed);
/// assert_eq!(SERVED.load(Ordering::Relaxed), 1);
/// ```
#[macro_export]
macro_rules! shared {
    ($($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr;)+) => {
        $($(#[$attr])* $vis static $name: $crate::process::Static<$t> = {
            fn init() -> $t {
                $init
            }
            // SAFETY: the result is this very static.
            unsafe { $crate::process::Static::__new(init) }
        };)+
    };
}

/// A static that all processes of the program have in common; [`shared!`](crate::shared) declares
/// it.
#[derive(Debug)]
pub struct Static<T: 'static> {
    init: fn() -> T,
    /// The value, once this process has read it. Each process's own.
    known: AtomicPtr<T>,
}

impl<T: Send + Sync> Static<T> {
    /// Creates the static.
    ///
    /// # Safety
    ///
    /// The result is made a static.
    #[doc(hidden)]
    pub const unsafe fn __new(init: fn() -> T) -> Self {
        Static { init, known: AtomicPtr::new(ptr::null_mut()) }
    }

    #[cold]
    fn find(&'static self) -> &'static T {
        let key = ptr::from_ref(self).addr();
        let value = StaticEntry::find(key).unwrap_or_else(|| {
            let value = NonNull::from(Box::leak(Box::new((self.init)())));
            StaticEntry::publish(key, value.cast())
        });
        let value = value.cast::<T>();
        // Release: pairs with the Acquire in `deref`.
        self.known.store(value.as_ptr(), Ordering::Release);
        // SAFETY: only values of its type are published under the address of this static, and never
        // dropped.
        unsafe { value.as_ref() }
    }
}

impl<T: Send + Sync> Deref for Static<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a published value is never dropped. Acquire: pairs with the Release in `find`.
        match unsafe { self.known.load(Ordering::Acquire).as_ref() } {
            Some(value) => value,
            // SAFETY: it is a static, by the contract of `__new`.
            None => unsafe { &*ptr::from_ref(self) }.find(),
        }
    }
}

/// The place of a static's value: a link of a list to which places are only added.
struct StaticEntry {
    /// The address of the static, which is the same in all processes of an image.
    key: usize,
    value: NonNull<()>,
    next: *const (),
}

impl StaticEntry {
    /// Returns the list's head: in the heap, if there is one.
    fn head() -> &'static AtomicPtr<()> {
        static ALONE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
        heap::heap().map_or(&ALONE, |heap| heap.root())
    }

    fn find(key: usize) -> Option<NonNull<()>> {
        // SAFETY: places are never freed. Acquire: pairs with the Release in `publish`.
        Self::find_from(Self::head().load(Ordering::Acquire), key)
    }

    fn find_from(first: *const (), key: usize) -> Option<NonNull<()>> {
        // SAFETY: places are never freed, and the list has nothing else.
        let place = |link: *const ()| unsafe { link.cast::<StaticEntry>().as_ref() };
        let mut places = std::iter::successors(place(first), |last| place(last.next));
        places.find(|place| place.key == key).map(|place| place.value)
    }

    /// Publishes `value` under `key`, unless another was published before; returns the published
    /// value.
    fn publish(key: usize, value: NonNull<()>) -> NonNull<()> {
        let place = Box::leak(Box::new(StaticEntry { key, value, next: ptr::null() }));
        let head = Self::head();
        let mut first = head.load(Ordering::Acquire);
        loop {
            if let Some(published) = Self::find_from(first, key) {
                return published;
            }
            place.next = first;
            // Release: pairs with the Acquire in `find`. Acquire: pairs with the Release of a
            // faster process.
            let new = ptr::from_mut(place).cast();
            match head.compare_exchange(first, new, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return value,
                Err(newer) => first = newer,
            }
        }
    }
}
