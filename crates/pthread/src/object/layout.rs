//! The probe of layouts: the C library's own functions set up scratch objects, and the words that
//! change are compared with those that the modules of this folder know.

use std::ffi::CStr;

use super::{barrier, cond, mutex, once, rwlock, sem, spin};

/// Checks that the C library keeps its objects in layouts that are known.
///
/// # Errors
///
/// The object that it keeps in another one.
pub(crate) fn check() -> Result<(), String> {
    /// The name of an object, and its check.
    type Check = (&'static str, fn() -> Option<()>);
    const CHECKS: [Check; 7] = [
        ("pthread_mutex_t", mutex::check_layout),
        ("pthread_cond_t", cond::check_layout),
        ("pthread_rwlock_t", rwlock::check_layout),
        ("pthread_barrier_t", barrier::check_layout),
        ("sem_t", sem::check_layout),
        ("pthread_once_t", once::check_layout),
        ("pthread_spinlock_t", spin::check_layout),
    ];
    match CHECKS.into_iter().find(|(_, check)| check().is_none()) {
        None => Ok(()),
        Some((name, _)) => {
            // SAFETY: the function returns a string that lives as long as the process.
            let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
            Err(format!(
                "this C library ({}) keeps {name} in a way that is not known",
                version.to_string_lossy()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_c_library_is_known() {
        assert_eq!(check(), Ok(()));
    }
}
