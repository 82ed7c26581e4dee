//! Segments, and the objects in them that C opens by name.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use daiko::shm::{
    Event, Mutex, MutexGuard, Reason, Segment, SegmentError, SegmentOptions, Semaphore,
    TimedLockError,
};
use libc::timespec;

use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, give, numbers};

/// `DAIKO_OPEN` and the rest: whether an object shall exist already.
#[derive(Clone, Copy)]
pub(crate) enum How {
    Open,
    Create,
    OpenOrCreate,
}

impl How {
    pub(crate) fn of(number: u32) -> Result<Self, Code> {
        match number {
            0 => Ok(How::Open),
            1 => Ok(How::Create),
            2 => Ok(How::OpenOrCreate),
            _ => Err(libc::EINVAL),
        }
    }

    /// Opens or creates an object.
    pub(crate) fn get<T>(
        self,
        open: impl FnOnce() -> Result<T, SegmentError>,
        create: impl FnOnce() -> Result<T, SegmentError>,
        either: impl FnOnce() -> Result<T, SegmentError>,
    ) -> Result<T, Code> {
        let object = match self {
            How::Open => open(),
            How::Create => create(),
            How::OpenOrCreate => either(),
        };
        object.map_err(|error| code_of_segment(&error))
    }
}

/// Returns the code of a segment or object that is not available.
pub(crate) fn code_of_segment(error: &SegmentError) -> Code {
    match error {
        SegmentError::File(error) => match error.reason() {
            Reason::Missing | Reason::NoDirectory => libc::ENOENT,
            Reason::Taken => libc::EEXIST,
            Reason::Denied { .. } | Reason::Exposed { .. } | Reason::Linked => libc::EACCES,
            Reason::NoList => libc::ENOTSUP,
            Reason::Full { .. } => libc::ENOSPC,
            _ => libc::EINVAL,
        },
        SegmentError::NoObject { .. } => libc::ENOENT,
        SegmentError::ObjectTaken { .. } => libc::EEXIST,
        SegmentError::Full { .. } | SegmentError::NoRoom { .. } => libc::ENOSPC,
        SegmentError::Foreign { .. }
        | SegmentError::Version { .. }
        | SegmentError::Machine { .. }
        | SegmentError::Pages { .. }
        | SegmentError::Unwatchable { .. } => libc::ENOTSUP,
        SegmentError::Size { .. } | SegmentError::Truncated { .. } => libc::EIO,
        SegmentError::Locked { .. } => libc::EAGAIN,
        SegmentError::Inherited { .. } => libc::EPERM,
        _ => libc::EINVAL,
    }
}

/// Returns the name that the caller passes.
pub(crate) fn name<'a>(name: *const c_char) -> Result<&'a str, Code> {
    if name.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: by `daiko.h`, a string that ends, and stays during the call.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| libc::EINVAL)
}

fn open_segment(
    segment: OutPlace<*const Segment>,
    path: *const c_char,
    how: u32,
    bytes: usize,
    options: &SegmentOptions,
) -> Result<(), Code> {
    segment.check()?;
    let (path, how) = (Path::new(name(path)?), How::of(how)?);
    let opened = how.get(
        || options.open(path),
        || options.create(path, bytes),
        || options.open_or_create(path, bytes),
    );
    segment.put(give(opened?))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_open(
    segment: OutPlace<*const Segment>,
    path: *const c_char,
    how: u32,
    bytes: usize,
) -> Code {
    answer(|| open_segment(segment, path, how, bytes, &Segment::options()))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_open_for(
    segment: OutPlace<*const Segment>,
    path: *const c_char,
    how: u32,
    bytes: usize,
    users: *const u32,
    user_count: usize,
    groups: *const u32,
    group_count: usize,
) -> Code {
    answer(|| {
        let users = numbers(users, user_count)?.iter().copied();
        let groups = numbers(groups, group_count)?.iter().copied();
        let options = users.fold(Segment::options(), SegmentOptions::user);
        let options = groups.fold(options, SegmentOptions::group);
        open_segment(segment, path, how, bytes, &options)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_remove(segment: Passed<Segment>) -> Code {
    answer(|| segment.get()?.remove().map_err(|error| code_of_segment(&error)))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_detach(segment: Passed<Segment>) -> Code {
    answer(|| segment.take().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_open(
    event: OutPlace<*const Event>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
) -> Code {
    answer(|| {
        event.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let opened = How::of(how)?.get(
            || Event::open(segment, called),
            || Event::create(segment, called),
            || Event::open_or_create(segment, called),
        );
        event.put(give(opened?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_set(event: Passed<Event>) -> Code {
    answer(|| {
        event.get()?.set();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_reset(event: Passed<Event>) -> Code {
    answer(|| {
        event.get()?.reset();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_wait(event: Passed<Event>, until: Passed<timespec>) -> Code {
    wait(|| {
        let deadline = deadline::named_or_never(&until)?;
        event.get()?.wait_timeout(deadline).map_err(|_| libc::ETIMEDOUT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_close(event: Passed<Event>) -> Code {
    answer(|| event.take().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_open(
    semaphore: OutPlace<*const Semaphore>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
    permits: u32,
) -> Code {
    answer(|| {
        semaphore.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let opened = How::of(how)?.get(
            || Semaphore::open(segment, called),
            || Semaphore::create(segment, called, permits),
            || Semaphore::open_or_create(segment, called, permits),
        );
        semaphore.put(give(opened?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_acquire(
    semaphore: Passed<Semaphore>,
    until: Passed<timespec>,
    permit: OutPlace<u32>,
) -> Code {
    wait(|| {
        permit.check()?;
        let deadline = deadline::named_or_never(&until)?;
        let acquired = semaphore.get()?.acquire_timeout(deadline).map_err(|_| libc::ETIMEDOUT)?;
        permit.put(acquired.number())?;
        // The process keeps it: if it dies, a peer takes it.
        mem::forget(acquired);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_release(semaphore: Passed<Semaphore>, permit: u32) -> Code {
    answer(|| {
        let semaphore = semaphore.get()?;
        semaphore.give_back(permit).then_some(()).ok_or(libc::EPERM)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_close(semaphore: Passed<Semaphore>) -> Code {
    answer(|| semaphore.take().map(drop))
}

/// `daiko_shared_mutex`: a handle of a mutex of a segment, and the guard while the handle holds it.
struct HeldSharedMutex {
    /// The guard. Its holder, which has set `is_held`, uses it.
    guard: UnsafeCell<Option<MutexGuard<'static, u64>>>,
    is_held: AtomicBool,
    lock: Mutex<u64>,
}

impl HeldSharedMutex {
    fn keep(&self, guard: MutexGuard<'_, u64>) {
        // SAFETY: the guard borrows `lock`, which lies in a box, and is dropped after the guard.
        let guard: MutexGuard<'static, u64> = unsafe { mem::transmute(guard) };
        // SAFETY: the caller holds the lock, and so alone uses the place.
        unsafe { *self.guard.get() = Some(guard) };
        // Relaxed: the lock orders it for the next holder.
        self.is_held.store(true, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_open(
    mutex: OutPlace<*const HeldSharedMutex>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
) -> Code {
    answer(|| {
        mutex.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let lock = How::of(how)?.get(
            || Mutex::open(segment, called),
            || Mutex::create(segment, called, 0),
            || Mutex::open_or_create(segment, called, 0),
        )?;
        let (guard, is_held) = (UnsafeCell::new(None), AtomicBool::new(false));
        mutex.put(give(HeldSharedMutex { guard, is_held, lock }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_lock(
    mutex: Passed<HeldSharedMutex>,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (mutex, deadline) = (mutex.get()?, deadline::named_or_never(&until)?);
        match mutex.lock.lock_timeout(deadline) {
            Ok(guard) => mutex.keep(guard),
            Err(TimedLockError::TimedOut) => return Err(libc::ETIMEDOUT),
            Err(TimedLockError::Poisoned(error)) => {
                mutex.keep(error.into_inner());
                return Err(libc::EOWNERDEAD);
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_unlock(mutex: Passed<HeldSharedMutex>) -> Code {
    answer(|| {
        let mutex = mutex.get()?;
        if !mutex.is_held.swap(false, Ordering::Relaxed) {
            return Err(libc::EPERM);
        }
        // SAFETY: by `daiko.h`, the caller holds the lock, and so alone uses the place.
        let guard = unsafe { (*mutex.guard.get()).take() };
        drop(guard);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_consistent(mutex: Passed<HeldSharedMutex>) -> Code {
    answer(|| {
        let mutex = mutex.get()?;
        if !mutex.is_held.load(Ordering::Relaxed) {
            return Err(libc::EPERM);
        }
        mutex.lock.clear_poison();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_close(mutex: Passed<HeldSharedMutex>) -> Code {
    answer(|| match mutex.get()?.is_held.load(Ordering::Relaxed) {
        true => Err(libc::EBUSY),
        false => mutex.take().map(drop),
    })
}
