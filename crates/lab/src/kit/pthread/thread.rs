//! Creation and joining of threads.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::{io, ptr};

/// Bytes of a thread's stack in address space, as small as a fiber's.
const STACK: usize = 64 * 1024;

/// Body of a thread.
pub(crate) type StartRoutine = extern "C" fn(*mut c_void) -> *mut c_void;

/// Attributes of threads with small stacks and the usual guard.
pub(crate) struct Attributes(libc::pthread_attr_t);

impl Attributes {
    pub(crate) fn small_stacks() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are uninitialised, and written before they are used.
        let attributes = unsafe {
            checked(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
            attributes.assume_init()
        };
        let mut attributes = Self(attributes);
        // SAFETY: the attributes are initialised.
        checked(unsafe { libc::pthread_attr_setstacksize(&mut attributes.0, STACK) })?;
        Ok(attributes)
    }

    /// Creates a thread that runs `start(argument)`.
    ///
    /// # Safety
    /// Until the thread is joined, `argument` must be valid for `start`, and usable on another
    /// thread.
    #[inline]
    pub(crate) unsafe fn create(
        &self,
        start: StartRoutine,
        argument: *const c_void,
    ) -> io::Result<Pthread> {
        let mut id = 0;
        // SAFETY: the identifier is written to a live local, the attributes are initialised, and
        // the caller guarantees the argument.
        checked(unsafe { libc::pthread_create(&mut id, &self.0, start, argument.cast_mut()) })?;
        Ok(Pthread(id))
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the attributes are initialised, and not used again.
        unsafe { libc::pthread_attr_destroy(&mut self.0) };
    }
}

/// A thread that must be joined.
#[must_use = "a thread that is not joined keeps its stack"]
pub(crate) struct Pthread(libc::pthread_t);

impl Pthread {
    /// Waits for the thread's end.
    #[inline]
    pub(crate) fn join(self) -> io::Result<()> {
        self.value().map(drop)
    }

    /// Waits for the thread's end. Returns its result, which is no pointer.
    #[inline]
    pub(crate) fn value(self) -> io::Result<usize> {
        let mut value = ptr::null_mut();
        // SAFETY: the thread is neither joined nor detached: this is its only handle, and it is
        // consumed. The result is written to a live local.
        checked(unsafe { libc::pthread_join(self.0, &mut value) })?;
        Ok(value.addr())
    }
}

/// Checks a call that returns its error rather than setting `errno`.
#[inline]
fn checked(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    extern "C" fn count(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the test passes a counter that outlives the thread.
        let counter = unsafe { &*argument.cast::<AtomicU32>() };
        let before = counter.fetch_add(1, Ordering::Relaxed);
        ptr::without_provenance_mut(before as usize + 1)
    }

    #[test]
    fn a_thread_has_run_when_it_is_joined() {
        let counter = AtomicU32::new(0);
        let attributes = Attributes::small_stacks().unwrap();
        for done in 1..=3 {
            // SAFETY: `count` expects a counter, which lives until the join below.
            let thread = unsafe { attributes.create(count, (&raw const counter).cast()) };
            let value = thread.unwrap().value().unwrap();
            // Relaxed: the join orders it.
            assert_eq!((counter.load(Ordering::Relaxed), value), (done, done as usize));
        }
    }
}
