//! Read-write locks.

use std::ffi::c_int;
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use daiko_rt::Deadline;

use super::scratch::{Scratch, done};
use crate::atomic::{AtomicU32, Ordering};
use crate::clock;
use crate::door::of_object;
use crate::home::thread_id;
use crate::parking::{self, Queue};
use crate::real;
use crate::waits::{Target, TargetKind};

/// A read-write lock, as the C library lays it out.
#[repr(C)]
struct RwLock {
    /// The number of readers, or `WRITER`.
    state: AtomicU32,
    /// The number of writers that wait, or are about to.
    writers: AtomicU32,
    for_readers: Queue,
    /// The id of the thread that writes. Written by it.
    writer: AtomicU32,
    shared: u32,
    for_writers: Queue,
    /// 2: writers go first.
    flags: u32,
    pad: u32,
}

const _: () = assert!(size_of::<RwLock>() == 56);
const _: () = assert!(std::mem::offset_of!(RwLock, flags) == 48);

const WRITER: u32 = 1 << 31;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const WRITERS_FIRST: u32 = 2;

impl RwLock {
    /// # Safety
    ///
    /// `lock` is a read-write lock that lives as long as the result is used.
    unsafe fn at<'l>(lock: *mut libc::pthread_rwlock_t) -> &'l RwLock {
        // SAFETY: by this function's contract.
        unsafe { &*lock.cast::<RwLock>() }
    }

    fn is_foreign(&self) -> bool {
        self.shared != 0
    }

    fn target(&self) -> Target {
        Target::new(TargetKind::RwLock, self)
    }

    fn is_writer(&self) -> bool {
        self.writer.load(Ordering::Relaxed) == thread_id()
    }

    /// Returns true if a reader has to wait.
    fn bars_readers(&self, state: u32) -> bool {
        state & WRITER != 0
            || self.flags == WRITERS_FIRST && self.writers.load(Ordering::Relaxed) != 0
    }

    /// Returns `EBUSY` if a reader has to wait, `EAGAIN` for one reader too many.
    fn try_read(&self) -> c_int {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if self.bars_readers(state) {
                return libc::EBUSY;
            }
            if state == WRITER - 1 {
                return libc::EAGAIN;
            }
            // Acquire: pairs with the Release of the writer before.
            match self.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return 0,
                Err(now) => state = now,
            }
        }
    }

    fn try_write(&self) -> bool {
        // Acquire: pairs with the Release of the holder before.
        let took = self.state.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed);
        if took.is_ok() {
            self.writer.store(thread_id(), Ordering::Relaxed);
        }
        took.is_ok()
    }

    fn read(&self, deadline: Deadline) -> c_int {
        match self.try_read() {
            libc::EBUSY if self.is_writer() => return libc::EDEADLK,
            libc::EBUSY => {}
            result => return result,
        }
        loop {
            let barred = || self.bars_readers(self.state.load(Ordering::Relaxed));
            let outcome = parking::wait(&self.for_readers, self.target(), deadline, barred);
            match self.try_read() {
                libc::EBUSY if outcome.is_timeout() => return libc::ETIMEDOUT,
                libc::EBUSY => {}
                result => return result,
            }
        }
    }

    fn write(&self, deadline: Deadline) -> c_int {
        if self.try_write() {
            return 0;
        }
        if self.is_writer() {
            return libc::EDEADLK;
        }
        self.writers.fetch_add(1, Ordering::Relaxed);
        let mut timed_out = false;
        let took = loop {
            if self.try_write() {
                break true;
            }
            if timed_out {
                break false;
            }
            let held = || self.state.load(Ordering::Relaxed) != 0;
            timed_out =
                parking::wait(&self.for_writers, self.target(), deadline, held).is_timeout();
        };
        // SeqCst: as the change of the state in `unlock`, which comes later. A reader that misses
        // the wake there sees both.
        self.writers.fetch_sub(1, Ordering::SeqCst);
        if took {
            return 0;
        }
        // Readers that this writer has barred; the fence is that of `wake_all`.
        if self.flags == WRITERS_FIRST && self.writers.load(Ordering::Relaxed) == 0 {
            parking::wake_all(&self.for_readers);
        }
        libc::ETIMEDOUT
    }

    fn unlock(&self) -> c_int {
        let is_writer = self.state.load(Ordering::Relaxed) & WRITER != 0;
        if is_writer {
            self.writer.store(0, Ordering::Relaxed);
            // Release: pairs with the Acquire of the next holder. SeqCst: for the looks at the
            // queues. A swap, as a store is not ordered before loads.
            self.state.swap(0, Ordering::SeqCst);
        // SeqCst: as above.
        } else if self.state.fetch_sub(1, Ordering::SeqCst) != 1 {
            return 0;
        }
        if self.flags == WRITERS_FIRST {
            if !parking::wake_one_after_rmw(&self.for_writers) {
                parking::wake_all_after_rmw(&self.for_readers);
            }
        } else {
            // Readers that come first may still meet a writer: it is woken by the last of them.
            if !is_writer || !parking::wake_all_after_rmw(&self.for_readers) {
                parking::wake_one_after_rmw(&self.for_writers);
            }
        }
        0
    }
}

/// Returns the id of the thread that holds the lock for writing, or 0.
///
/// # Safety
///
/// The address is that of a read-write lock.
pub(crate) unsafe fn writer_of(address: usize) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { RwLock::at(ptr::with_exposed_provenance_mut(address)) }.writer.load(Ordering::Relaxed)
}

/// # Safety
///
/// As for `pthread_rwlock_init`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_rwlock_init(
    lock: *mut libc::pthread_rwlock_t,
    attributes: *const libc::pthread_rwlockattr_t,
) -> c_int {
    // SAFETY: by this function's contract. The C library writes zeros but for its own words.
    unsafe { libc::pthread_rwlock_init(lock, attributes) }
}

/// # Safety
///
/// As for `pthread_rwlock_destroy`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_rwlock_destroy(
    _lock: *mut libc::pthread_rwlock_t,
) -> c_int {
    0
}

/// # Safety
///
/// As for `pthread_rwlock_timedrdlock`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_rwlock_timedrdlock(
    lock: *mut libc::pthread_rwlock_t,
    until: *const libc::timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { daiko_pthread_rwlock_clockrdlock(lock, libc::CLOCK_REALTIME, until) }
}

/// # Safety
///
/// As for `pthread_rwlock_timedwrlock`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_rwlock_timedwrlock(
    lock: *mut libc::pthread_rwlock_t,
    until: *const libc::timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { daiko_pthread_rwlock_clockwrlock(lock, libc::CLOCK_REALTIME, until) }
}

of_object! { RwLock:
    daiko_pthread_rwlock_rdlock = pthread_rwlock_rdlock(lock: *mut libc::pthread_rwlock_t)
        lock.read(Deadline::NEVER);
    daiko_pthread_rwlock_wrlock = pthread_rwlock_wrlock(lock: *mut libc::pthread_rwlock_t)
        lock.write(Deadline::NEVER);
    daiko_pthread_rwlock_tryrdlock = pthread_rwlock_tryrdlock(lock: *mut libc::pthread_rwlock_t)
        lock.try_read();
    daiko_pthread_rwlock_trywrlock = pthread_rwlock_trywrlock(lock: *mut libc::pthread_rwlock_t)
        if lock.try_write() { 0 } else { libc::EBUSY };
    daiko_pthread_rwlock_clockrdlock = pthread_rwlock_clockrdlock(
        lock: *mut libc::pthread_rwlock_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) {
        // SAFETY: by this function's contract.
        let deadline = unsafe { clock::deadline(clock, until) };
        deadline.map_or_else(|error| error, |deadline| lock.read(deadline))
    };
    daiko_pthread_rwlock_clockwrlock = pthread_rwlock_clockwrlock(
        lock: *mut libc::pthread_rwlock_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) {
        // SAFETY: by this function's contract.
        let deadline = unsafe { clock::deadline(clock, until) };
        deadline.map_or_else(|error| error, |deadline| lock.write(deadline))
    };
    daiko_pthread_rwlock_unlock = pthread_rwlock_unlock(lock: *mut libc::pthread_rwlock_t)
        lock.unlock();
}

/// See [`layout`](super::layout).
pub(super) fn check_layout() -> Option<()> {
    const WORD: usize = size_of::<u32>();
    const WRITER_AT: usize = offset_of!(RwLock, writer) / WORD;
    const SHARED: usize = offset_of!(RwLock, shared) / WORD;
    const FLAGS: usize = offset_of!(RwLock, flags) / WORD;
    let init = |kind, sharing| {
        Scratch::<libc::pthread_rwlock_t, 14>::new(|lock| {
            let mut attributes = MaybeUninit::uninit();
            // SAFETY: the attributes are initialised, and outlive their use.
            unsafe {
                libc::pthread_rwlockattr_init(attributes.as_mut_ptr());
                libc::pthread_rwlockattr_setpshared(attributes.as_mut_ptr(), sharing);
                match real::pthread_rwlockattr_setkind_np(attributes.as_mut_ptr(), kind) {
                    0 => libc::pthread_rwlock_init(lock, attributes.as_ptr()),
                    error => error,
                }
            }
        })
    };
    let mut own = init(0, libc::PTHREAD_PROCESS_PRIVATE)?;
    own.has(&[])?;
    // SAFETY: the lock is initialised.
    done(unsafe { libc::pthread_rwlock_wrlock(own.pointer()) })?;
    (own.words()[WRITER_AT] == daiko_sys::thread::id()).then_some(())?;
    // SAFETY: as above; the caller holds it.
    done(unsafe { libc::pthread_rwlock_unlock(own.pointer()) })?;
    (own.words()[WRITER_AT] == 0).then_some(())?;
    let writers_first = WRITERS_FIRST as c_int;
    init(writers_first, libc::PTHREAD_PROCESS_PRIVATE)?.has(&[(FLAGS, WRITERS_FIRST)])?;
    (init(0, libc::PTHREAD_PROCESS_SHARED)?.words()[SHARED] != 0).then_some(())
}
