//! Fiber-local values: each fiber has its own.

pub(crate) mod table;

use crate::caller;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr;
use std::thread::LocalKey;

use self::table::LocalState;
use daiko_rt::fiber::ControlBlock;

/// Declares statics of which every fiber has its own value, as [`std::thread_local!`] does for
/// threads.
///
/// A value is initialised when its fiber uses it first. It is dropped when the fiber ends: in the
/// fiber, before its join returns.
///
/// ```
/// use std::cell::Cell;
///
/// daiko::fiber_local! {
///     /// How deep the calling fiber is.
///     static DEPTH: Cell<u32> = const { Cell::new(0) };
///     pub static NAME: String = daiko::current().name().unwrap_or("nobody").to_owned();
/// }
///
/// daiko::run(|| {
///     DEPTH.set(1);
///     let other = daiko::Builder::new().name("other").spawn(|| {
///         assert_eq!(DEPTH.get(), 0);
///         NAME.with(|name| name.len())
///     });
///     assert_eq!(other.unwrap().join().unwrap(), 5);
///     assert_eq!(DEPTH.get(), 1);
/// });
/// ```
///
/// The macro needs no `unsafe` of its user:
///
/// ```
/// #![forbid(unsafe_code)]
///
/// daiko::fiber_local!(static BUFFER: std::cell::RefCell<Vec<u8>> = Default::default());
/// # BUFFER.with_borrow(|buffer| assert!(buffer.is_empty()));
/// ```
///
/// An initialiser in a `const` block is evaluated when the program is compiled. [`FiberLocal`] has
/// the operations on the static.
#[doc(alias("task_local", "thread_local"))]
#[macro_export]
macro_rules! fiber_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $crate::__fiber_local!([$(#[$attr])* $vis $name $t] (const $init) (const $init));
        $($crate::fiber_local! { $($rest)* })?
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $crate::__fiber_local!([$(#[$attr])* $vis $name $t] ($init) (__daiko_init()));
        $($crate::fiber_local! { $($rest)* })?
    };
}

/// One static, with its initialisers for fibers and for threads.
#[doc(hidden)]
#[macro_export]
macro_rules! __fiber_local {
    ([$(#[$attr:meta])* $vis:vis $name:ident $t:ty] ($($fiber:tt)*) ($($thread:tt)*)) => {
        $(#[$attr])*
        $vis static $name: $crate::FiberLocal<$t> = {
            fn __daiko_init() -> $t {
                $($fiber)*
            }
            ::std::thread_local! {
                static __DAIKO_OF_THREAD: $t = $($thread)*;
            }
            // SAFETY: `__new` makes the value of this very static.
            unsafe { $crate::FiberLocal::__new(__daiko_init, &__DAIKO_OF_THREAD) }
        };
    };
}

/// A static of which every fiber has its own value: [`fiber_local!`](crate::fiber_local) declares
/// it.
///
/// A value lives from its first use to the end of its fiber, on any worker: a migratable fiber
/// takes it along. Unlike a thread-local, it is not accessible to other fibers while its fiber is
/// suspended, so it may be borrowed across suspensions.
///
/// Code that runs outside fibers has the value of its thread, as if this were also declared by
/// [`std::thread_local!`]: threads that are not workers, pollers, and the closure of
/// [`blocking`](crate::blocking()), which runs on such a thread.
///
/// # Ends
///
/// Values are dropped once the fiber's closure has returned or was unwound, in reverse order of
/// initialisation. Their destructors may suspend; as in an unwinding, they are not cancelled. A
/// panic ends with the destructor that it comes from. A destructor may use other locals: an
/// uninitialised one is initialised, and dropped in turn; a local is no longer accessible
/// once its own destructor has begun ([`try_with`](Self::try_with)). The values of a fiber that is
/// left behind by a shutdown are never dropped.
///
/// # Cost
///
/// A fiber without such values pays one check of its control block when it ends. The first value
/// costs an allocation for the table and, like each value, one for itself; a use costs a look into
/// that table.
pub struct FiberLocal<T: 'static> {
    init: fn() -> T,
    of_thread: &'static LocalKey<T>,
}

/// The value of a local is gone: its destructor has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fiber-local is being dropped or gone; use try_with in destructors")
    }
}

impl std::error::Error for AccessError {}

impl<T: 'static> FiberLocal<T> {
    /// # Safety
    ///
    /// The result becomes a static, so that no other static has its address.
    #[doc(hidden)]
    pub const unsafe fn __new(init: fn() -> T, of_thread: &'static LocalKey<T>) -> Self {
        FiberLocal { init, of_thread }
    }

    /// Calls `f` with the value of the calling fiber, which is initialised if need be.
    ///
    /// ```
    /// daiko::fiber_local!(static ID: u64 = 7);
    ///
    /// daiko::run(|| assert_eq!(ID.with(|id| *id), 7));
    /// ```
    ///
    /// # Panics
    ///
    /// If the value's destructor has begun, or there is no memory for it; if `f` panics, or the
    /// initialiser.
    #[inline]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => gone(error),
        }
    }

    /// Calls `f` as [`with`](Self::with) does, for callers that may be destructors.
    ///
    /// # Errors
    ///
    /// If the value's destructor has begun.
    ///
    /// # Panics
    ///
    /// If there is no memory for the value; if `f` panics, or the initialiser.
    #[inline]
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        match caller::try_caller() {
            Some((_, fiber)) => self.of(fiber, self.init).map(f),
            None => self.of_thread.try_with(f).map_err(|_| AccessError),
        }
    }

    /// Returns the value of `fiber`, the caller; `init` makes it, if there is none.
    #[inline]
    fn of<'f>(
        &'static self,
        fiber: &'f ControlBlock,
        init: impl FnOnce() -> T,
    ) -> Result<&'f T, AccessError> {
        // SAFETY: only this static has this address, so that the values have its type.
        match unsafe { table::find::<T>(fiber, self.key()) } {
            // SAFETY: it lives as long as the fiber's code, other destructors of locals included,
            // and only this fiber uses it; its own destructor finds it gone.
            LocalState::Value(value) => Ok(unsafe { value.as_ref() }),
            LocalState::Nothing => Ok(self.of_slow(fiber, init)),
            LocalState::Dropped => Err(AccessError),
        }
    }

    #[cold]
    fn of_slow<'f>(&'static self, fiber: &'f ControlBlock, init: impl FnOnce() -> T) -> &'f T {
        let made = init();
        // SAFETY: as in `of`.
        let value = unsafe {
            match table::find::<T>(fiber, self.key()) {
                // The initialiser has used this local itself.
                LocalState::Value(value) => value,
                LocalState::Nothing | LocalState::Dropped => table::insert(fiber, self.key(), made),
            }
        };
        // SAFETY: as in `of`.
        unsafe { value.as_ref() }
    }

    fn key(&'static self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Sets the value of `fiber`, the caller, without the initialiser; calls `replace` if it has a
    /// value.
    fn put(&'static self, fiber: &ControlBlock, value: T, replace: impl FnOnce(&T, T)) {
        // SAFETY: as in `of`.
        match unsafe { table::find::<T>(fiber, self.key()) } {
            // SAFETY: as in `of`.
            LocalState::Value(local) => replace(unsafe { local.as_ref() }, value),
            // SAFETY: as in `of`.
            LocalState::Nothing => drop(unsafe { table::insert(fiber, self.key(), value) }),
            LocalState::Dropped => gone(AccessError),
        }
    }
}

#[cold]
fn gone(error: AccessError) -> ! {
    panic!("daiko: {error}")
}

/// # Panics
///
/// Those of [`with`](FiberLocal::with), for all functions.
impl<T: 'static> FiberLocal<Cell<T>> {
    /// Sets the value; on the first use, in place of the initialiser.
    ///
    /// ```
    /// use std::cell::Cell;
    /// daiko::fiber_local!(static COUNT: Cell<u32> = panic!("it is never used before it is set"));
    ///
    /// daiko::run(|| {
    ///     COUNT.set(1);
    ///     assert_eq!(COUNT.replace(2), 1);
    ///     assert_eq!(COUNT.take(), 2);
    ///     assert_eq!(COUNT.get(), 0);
    /// });
    /// ```
    pub fn set(&'static self, value: T) {
        match caller::try_caller() {
            Some((_, fiber)) => {
                self.put(fiber, Cell::new(value), |cell, new| cell.set(new.into_inner()));
            }
            None => self.of_thread.set(value),
        }
    }

    /// Returns a copy of the value.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes the value, and leaves its type's default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Replaces the value by `value`, and returns the old value.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

/// # Panics
///
/// Those of [`with`](FiberLocal::with), for all functions; and if an existing borrow conflicts.
impl<T: 'static> FiberLocal<RefCell<T>> {
    /// Calls `f` with the value.
    ///
    /// ```
    /// use std::cell::RefCell;
    /// daiko::fiber_local!(static LOG: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
    ///
    /// daiko::run(|| {
    ///     LOG.set(vec![1]);
    ///     LOG.with_borrow_mut(|log| log.push(2));
    ///     LOG.with_borrow(|log| assert_eq!(log.len(), 2));
    ///     assert_eq!(LOG.replace(vec![3]), [1, 2]);
    ///     assert_eq!(LOG.take(), [3]);
    /// });
    /// ```
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Calls `f` with a mutable reference to the value.
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets the value; on the first use, in place of the initialiser.
    pub fn set(&'static self, value: T) {
        match caller::try_caller() {
            Some((_, fiber)) => {
                let replace =
                    |cell: &RefCell<T>, new: RefCell<T>| *cell.borrow_mut() = new.into_inner();
                self.put(fiber, RefCell::new(value), replace);
            }
            None => self.of_thread.set(value),
        }
    }

    /// Takes the value, and leaves its type's default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Replaces the value by `value`, and returns the old value.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for FiberLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FiberLocal").finish_non_exhaustive()
    }
}
