//! Mutexes.

use std::cell::Cell;
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
use crate::waits::{Target, TargetKind};

/// A mutex, as the C library lays it out.
#[repr(C)]
pub(crate) struct Mutex {
    /// 0: free; 1: held; 2: held, and there may be waiters.
    lock: AtomicU32,
    /// How often the holder of a recursive mutex has locked it. Only the holder.
    count: Cell<u32>,
    /// The id of the holder. Written by the holder.
    owner: AtomicU32,
    /// 1 while it is held. Only the holder.
    users: Cell<u32>,
    kind: Cell<u32>,
    spins: u32,
    queue: Queue,
}

const _: () = assert!(size_of::<Mutex>() == 40);

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Robust, with priority inheritance or protection, or process-shared.
const FOREIGN: u32 = 0xf0;
/// The bits of the kind proper: other bits are hints for lock elision.
const KIND: u32 = 3;

/// The kinds that the C library numbers so.
const RECURSIVE: u32 = libc::PTHREAD_MUTEX_RECURSIVE as u32;
const ERRORCHECK: u32 = libc::PTHREAD_MUTEX_ERRORCHECK as u32;

/// Looks at a held mutex before the caller waits: the holder may be about to release it.
const SPINS: u32 = 40;

impl Mutex {
    /// # Safety
    ///
    /// `mutex` is a mutex that lives as long as the result is used.
    unsafe fn at<'m>(mutex: *mut libc::pthread_mutex_t) -> &'m Mutex {
        // SAFETY: by this function's contract.
        unsafe { &*mutex.cast::<Mutex>() }
    }

    #[inline]
    fn is_foreign(&self) -> bool {
        self.kind.get() & FOREIGN != 0
    }

    #[inline]
    fn kind(&self) -> u32 {
        self.kind.get() & KIND
    }

    /// Locks a mutex that is not foreign.
    #[inline]
    fn lock(&self, deadline: impl FnOnce() -> Result<Deadline, c_int>) -> c_int {
        let me = thread_id();
        if let Some(result) = self.held_by_caller(me) {
            return result;
        }
        if self.try_take() { self.taken(me) } else { self.lock_slow(me, deadline) }
    }

    #[inline(never)]
    fn lock_slow(&self, me: u32, deadline: impl FnOnce() -> Result<Deadline, c_int>) -> c_int {
        match deadline() {
            Err(error) => error,
            Ok(deadline) if !self.take_slow(deadline) => libc::ETIMEDOUT,
            Ok(_) => self.taken(me),
        }
    }

    /// Locks a mutex that is not foreign, if it is free.
    fn try_lock(&self) -> c_int {
        let me = thread_id();
        if self.kind() == RECURSIVE
            && let Some(result) = self.held_by_caller(me)
        {
            return result;
        }
        if self.try_take() { self.taken(me) } else { libc::EBUSY }
    }

    /// Returns the result for a caller that has the mutex already, if its kind looks at that.
    #[inline]
    fn held_by_caller(&self, me: u32) -> Option<c_int> {
        let kind = self.kind();
        if kind != RECURSIVE && kind != ERRORCHECK || self.owner.load(Ordering::Relaxed) != me {
            return None;
        }
        if kind == ERRORCHECK {
            return Some(libc::EDEADLK);
        }
        match self.count.get().checked_add(1) {
            Some(count) => {
                self.count.set(count);
                Some(0)
            }
            None => Some(libc::EAGAIN),
        }
    }

    #[inline]
    fn taken(&self, me: u32) -> c_int {
        self.users.set(self.users.get().wrapping_add(1));
        self.hold(me, 1);
        0
    }

    #[inline]
    fn hold(&self, me: u32, count: u32) {
        self.owner.store(me, Ordering::Relaxed);
        self.count.set(count);
    }

    #[inline]
    fn try_take(&self) -> bool {
        // Acquire: pairs with the Release in `release`.
        self.lock.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(never)]
    fn take_slow(&self, deadline: Deadline) -> bool {
        for _ in 0..SPINS {
            if self.lock.load(Ordering::Relaxed) == FREE && self.try_take() {
                return true;
            }
            crate::atomic::spin_loop();
        }
        // Acquire: as above.
        while self.lock.swap(CONTENDED, Ordering::Acquire) != FREE {
            let held = || self.lock.load(Ordering::Relaxed) == CONTENDED;
            let target = Target::new(TargetKind::Mutex, self);
            if parking::wait(&self.queue, target, deadline, held).is_timeout() {
                return false;
            }
        }
        true
    }

    /// Gives the mutex up. The last access to it but for a wake of a waiter, which keeps it alive.
    #[inline]
    fn release(&self) {
        self.owner.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire of the next holder. SeqCst: for the look at the queue.
        if self.lock.swap(FREE, Ordering::SeqCst) == CONTENDED {
            parking::wake_one_after_rmw(&self.queue);
        }
    }

    #[inline]
    fn unlock(&self) -> c_int {
        let kind = self.kind();
        if kind == RECURSIVE || kind == ERRORCHECK {
            if self.owner.load(Ordering::Relaxed) != thread_id() {
                return libc::EPERM;
            }
            if kind == RECURSIVE && self.count.get() > 1 {
                self.count.set(self.count.get() - 1);
                return 0;
            }
        }
        self.count.set(0);
        self.users.set(self.users.get().wrapping_sub(1));
        self.release();
        0
    }

    /// Gives the mutex up for a wait; returns the count that [`retake`](Self::retake) restores.
    /// `EPERM` if the kind looks at the holder and the caller is none.
    fn give_up(&self) -> Result<u32, c_int> {
        let kind = self.kind();
        if (kind == RECURSIVE || kind == ERRORCHECK)
            && self.owner.load(Ordering::Relaxed) != thread_id()
        {
            return Err(libc::EPERM);
        }
        Ok(self.count.replace(0))
    }

    /// Locks a mutex again that the caller has given up.
    fn retake(&self, count: u32) {
        if !self.try_take() {
            self.take_slow(Deadline::NEVER);
        }
        self.hold(thread_id(), count);
    }
}

/// A mutex that the caller holds, and gives up for a wait. Its waiters still count as its users.
pub(crate) struct WaitMutex<'m> {
    mutex: &'m Mutex,
    count: u32,
}

impl<'m> WaitMutex<'m> {
    /// Takes the mutex, which is not foreign. `EPERM` if its kind looks at the holder and that is
    /// another thread.
    ///
    /// # Safety
    ///
    /// `mutex` is a mutex that outlives the result.
    pub(crate) unsafe fn new(mutex: *mut libc::pthread_mutex_t) -> Result<Self, c_int> {
        // SAFETY: by this function's contract.
        let mutex = unsafe { Mutex::at(mutex) };
        Ok(WaitMutex { mutex, count: mutex.give_up()? })
    }

    /// Unlocks the mutex.
    pub(crate) fn unlock(&self) {
        self.mutex.release();
    }

    /// Locks the mutex again.
    pub(crate) fn lock(&self) {
        self.mutex.retake(self.count);
    }
}

/// Returns the id of the thread that holds the mutex, or 0.
///
/// # Safety
///
/// The address is that of a mutex.
pub(crate) unsafe fn holder_of(address: usize) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { Mutex::at(ptr::with_exposed_provenance_mut(address)) }.owner.load(Ordering::Relaxed)
}

/// Returns true if the mutex is the C library's, so that it is locked and unlocked at home.
///
/// # Safety
///
/// `mutex` is a mutex.
pub(crate) unsafe fn is_foreign(mutex: *mut libc::pthread_mutex_t) -> bool {
    // SAFETY: by this function's contract.
    unsafe { Mutex::at(mutex) }.is_foreign()
}

/// # Safety
///
/// As for `pthread_mutex_destroy`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_mutex_destroy(
    mutex: *mut libc::pthread_mutex_t,
) -> c_int {
    // SAFETY: by this function's contract. The C library looks at `users`.
    unsafe { libc::pthread_mutex_destroy(mutex) }
}

/// # Safety
///
/// As for `pthread_mutex_timedlock`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_mutex_timedlock(
    mutex: *mut libc::pthread_mutex_t,
    until: *const libc::timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { daiko_pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, until) }
}

of_object! { Mutex:
    daiko_pthread_mutex_lock = pthread_mutex_lock(mutex: *mut libc::pthread_mutex_t)
        mutex.lock(|| Ok(Deadline::NEVER));
    daiko_pthread_mutex_trylock = pthread_mutex_trylock(mutex: *mut libc::pthread_mutex_t)
        mutex.try_lock();
    daiko_pthread_mutex_clocklock = pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) {
        if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
            return libc::EINVAL;
        }
        // SAFETY: by this function's contract.
        mutex.lock(|| unsafe { clock::deadline(clock, until) })
    };
    daiko_pthread_mutex_unlock = pthread_mutex_unlock(mutex: *mut libc::pthread_mutex_t)
        mutex.unlock();
}

/// The hint that the C library may elide the lock.
const ELIDED: u32 = 0x100;

/// Index of the word that has the kind.
const KIND_AT: usize = offset_of!(Mutex, kind) / size_of::<u32>();

/// See [`layout`](super::layout).
pub(super) fn check_layout() -> Option<()> {
    const FOREIGN_PROPERTIES: [(Property, u32); 4] = [
        ((libc::pthread_mutexattr_setrobust, libc::PTHREAD_MUTEX_ROBUST), 0x10),
        ((libc::pthread_mutexattr_setprotocol, libc::PTHREAD_PRIO_INHERIT), 0x20),
        ((libc::pthread_mutexattr_setprotocol, libc::PTHREAD_PRIO_PROTECT), 0x40),
        ((libc::pthread_mutexattr_setpshared, libc::PTHREAD_PROCESS_SHARED), 0x80),
    ];
    const KINDS: u32 = 4;
    for kind in 0..KINDS {
        check_own_kind(kind)?;
    }
    for (property, bit) in FOREIGN_PROPERTIES {
        let mutex = scratch(property)?;
        (mutex.words()[KIND_AT] & bit != 0).then_some(())?;
    }
    Some(())
}

/// A property of a mutex: a function of attributes, and its argument.
type Property = (unsafe extern "C" fn(*mut libc::pthread_mutexattr_t, c_int) -> c_int, c_int);

/// Returns a mutex with this property.
fn scratch((set, value): Property) -> Option<Scratch<libc::pthread_mutex_t, 10>> {
    Scratch::new(|mutex| {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised, and outlive their use.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            match set(attributes.as_mut_ptr(), value) {
                0 => libc::pthread_mutex_init(mutex, attributes.as_ptr()),
                error => error,
            }
        }
    })
}

/// Checks a mutex of this kind while it is free, and while it is held.
fn check_own_kind(kind: u32) -> Option<()> {
    const WORD: usize = size_of::<u32>();
    let mut mutex = scratch((libc::pthread_mutexattr_settype, kind as c_int))?;
    let seen = mutex.words()[KIND_AT];
    mutex.has(&[(KIND_AT, seen)])?;
    (seen & FOREIGN == 0 && seen & KIND == kind).then_some(())?;
    if seen & ELIDED != 0 {
        // The words of a held mutex may be those of a free one.
        return Some(());
    }
    // SAFETY: the mutex is initialised.
    done(unsafe { libc::pthread_mutex_lock(mutex.pointer()) })?;
    mutex.has(&[
        (offset_of!(Mutex, lock) / WORD, HELD),
        (offset_of!(Mutex, count) / WORD, u32::from(kind == RECURSIVE)),
        (offset_of!(Mutex, owner) / WORD, daiko_sys::thread::id()),
        (offset_of!(Mutex, users) / WORD, 1),
        (KIND_AT, seen),
    ])?;
    // SAFETY: as above; the caller holds it.
    done(unsafe { libc::pthread_mutex_unlock(mutex.pointer()) })?;
    mutex.has(&[(KIND_AT, seen)])
}
