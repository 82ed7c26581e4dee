//! Values of which every fiber has its own.

pub(crate) mod table;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr;
use std::thread::LocalKey;

use self::table::Found;
use daiko_rt::fiber::ControlBlock;
use daiko_rt::worker::suspend;

/// Declares statics of which every fiber has its own value, as [`std::thread_local!`] does for threads.
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
/// what can be done with the static.
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

/// One static: what a fiber initialises it by, and a thread.
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
            // SAFETY: this very static is what is made here.
            unsafe { $crate::FiberLocal::__new(__daiko_init, &__DAIKO_OF_THREAD) }
        };
    };
}

/// A static of which every fiber has its own value: [`fiber_local!`](crate::fiber_local) declares it.
///
/// A value lives from its first use to the end of its fiber, wherever that runs: a mover takes it
/// along. It stays the fiber's alone while that is suspended, unlike what is in a thread-local, so
/// that it may be borrowed across suspensions.
///
/// What is not run by a fiber has the value of its thread, as if this were declared by
/// [`std::thread_local!`] beside: threads that are no workers, pollers, and the closure of
/// [`blocking`](crate::blocking()), which runs on such a thread.
///
/// # Ends
///
/// Values are dropped once the fiber's closure has returned or was unwound, the one that was
/// initialised last before the others. Their destructors may suspend; as in an unwinding, they are
/// not cancelled. A panic ends with the destructor that it comes from. A destructor may use other
/// locals: one that was not initialised is, and is dropped in turn; one whose own destructor has
/// begun is not there any more ([`try_with`](Self::try_with)). The values of a fiber that is left
/// behind by a shutdown are never dropped.
///
/// # Cost
///
/// A fiber without such values pays a look at its control block when it ends. The first one costs
/// an allocation for the table and, as any, one for itself; a use costs a look into that table.
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
    /// The result becomes a static, so that no other has its address.
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
    /// If the value's destructor has begun, or there is no memory for it; where `f` does, or the initialiser.
    #[inline]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => gone(error),
        }
    }

    /// As [`with`](Self::with), for callers that a destructor may have.
    ///
    /// # Errors
    ///
    /// If the value's destructor has begun.
    ///
    /// # Panics
    ///
    /// If there is no memory for the value; where `f` does, or the initialiser.
    #[inline]
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        match suspend::try_caller() {
            Some((_, fiber)) => self.of(fiber, self.init).map(f),
            None => self.of_thread.try_with(f).map_err(|_| AccessError),
        }
    }

    /// The value of `fiber`, the caller; `init` makes it, if there is none.
    #[inline]
    fn of<'f>(
        &'static self,
        fiber: &'f ControlBlock,
        init: impl FnOnce() -> T,
    ) -> Result<&'f T, AccessError> {
        // SAFETY: the address is that of this static alone, so that its type is that of the values.
        match unsafe { table::find::<T>(fiber, self.key()) } {
            // SAFETY: it lives as long as what the fiber runs, other destructors of locals included,
            // and nobody else uses it; its own destructor finds it gone.
            Found::Value(value) => Ok(unsafe { value.as_ref() }),
            Found::Nothing => Ok(self.of_slow(fiber, init)),
            Found::Dropped => Err(AccessError),
        }
    }

    #[cold]
    fn of_slow<'f>(&'static self, fiber: &'f ControlBlock, init: impl FnOnce() -> T) -> &'f T {
        let made = init();
        // SAFETY: as in `of`.
        let value = unsafe {
            match table::find::<T>(fiber, self.key()) {
                // The initialiser has come here itself.
                Found::Value(value) => value,
                Found::Nothing | Found::Dropped => table::insert(fiber, self.key(), made),
            }
        };
        // SAFETY: as in `of`.
        unsafe { value.as_ref() }
    }

    fn key(&'static self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Makes `value` that of `fiber`, the caller, without the initialiser; `replace` does if it has one.
    fn put(&'static self, fiber: &ControlBlock, value: T, replace: impl FnOnce(&T, T)) {
        // SAFETY: as in `of`.
        match unsafe { table::find::<T>(fiber, self.key()) } {
            // SAFETY: as in `of`.
            Found::Value(local) => replace(unsafe { local.as_ref() }, value),
            // SAFETY: as in `of`.
            Found::Nothing => drop(unsafe { table::insert(fiber, self.key(), value) }),
            Found::Dropped => gone(AccessError),
        }
    }
}

#[cold]
fn gone(error: AccessError) -> ! {
    panic!("daiko: {error}")
}

/// # Panics
///
/// All of them as [`with`](FiberLocal::with).
impl<T: 'static> FiberLocal<Cell<T>> {
    /// Sets the value; if it is the first use, instead of initialising it.
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
        match suspend::try_caller() {
            Some((_, fiber)) => {
                self.put(fiber, Cell::new(value), |cell, new| cell.set(new.into_inner()));
            }
            None => self.of_thread.set(value),
        }
    }

    /// A copy of the value.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// The value, which becomes its type's default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// The value, which becomes `value`.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

/// # Panics
///
/// All of them as [`with`](FiberLocal::with), and if the value is borrowed as it must not be.
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

    /// Calls `f` with the value, which it may change.
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets the value; if it is the first use, instead of initialising it.
    pub fn set(&'static self, value: T) {
        match suspend::try_caller() {
            Some((_, fiber)) => {
                let replace =
                    |cell: &RefCell<T>, new: RefCell<T>| *cell.borrow_mut() = new.into_inner();
                self.put(fiber, RefCell::new(value), replace);
            }
            None => self.of_thread.set(value),
        }
    }

    /// The value, which becomes its type's default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// The value, which becomes `value`.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for FiberLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FiberLocal").finish_non_exhaustive()
    }
}
