//! Declarations of exported functions.
//!
//! Each declares the function of the C library that it stands for as one that may unwind, as the
//! calling thread may end there.

/// Declares functions of the C library that are called at home, by `errand` or `for_good`.
macro_rules! made_at_home {
    ($($way:ident: $door:ident = $name:ident($($argument:ident: $type:ty),* $(,)?)
        -> $result:ty;)*) => {$(
        /// # Safety
        ///
        /// As for the function of this name in the C library.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $door($($argument: $type),*) -> $result {
            unsafe extern "C-unwind" {
                fn $name($($argument: $type),*) -> $result;
            }
            // SAFETY: by this function's contract.
            $crate::home::$way(|| unsafe { $name($($argument),*) })
        }
    )*};
}

/// Declares functions of an object: the expression, for an object of ours, or else the function of
/// the C library, called at home.
macro_rules! of_object {
    ($object:ident: $($door:ident = $name:ident(
        $ours:ident: *mut $theirs:ty $(, $argument:ident: $type:ty)* $(,)?
    ) $own:expr;)*) => {$(
        /// # Safety
        ///
        /// As for the function of this name in the C library.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $door(
            object: *mut $theirs
            $(, $argument: $type)*
        ) -> std::ffi::c_int {
            unsafe extern "C-unwind" {
                fn $name(object: *mut $theirs $(, $argument: $type)*) -> std::ffi::c_int;
            }
            /// Apart, so that the path of an object of ours saves no register.
            ///
            /// # Safety
            ///
            /// As for the function.
            #[cold]
            #[inline(never)]
            unsafe fn by_library(object: *mut $theirs $(, $argument: $type)*) -> std::ffi::c_int {
                // SAFETY: by this function's contract.
                $crate::home::errand(|| unsafe { $name(object $(, $argument)*) })
            }
            // SAFETY: by this function's contract.
            let $ours = unsafe { $object::at(object) };
            if $ours.is_foreign() {
                // SAFETY: as above.
                return unsafe { by_library(object $(, $argument)*) };
            }
            $own
        }
    )*};
}

pub(crate) use {made_at_home, of_object};
