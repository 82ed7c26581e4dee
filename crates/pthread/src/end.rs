//! The ends of the program's threads. Each is told: to the list of homes, and to the thread that
//! joins it. The process ends with the last of them, though the runtime has threads of its own.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

use daiko_sys::thread;
use libc::pthread_key_t;

use crate::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::home::list;
use crate::mask::{self, Mask};
use crate::parking;

/// The number of the program's threads.
static THREADS: AtomicUsize = AtomicUsize::new(1);

pub(crate) fn thread_is_created() {
    THREADS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn thread_is_not_created() {
    THREADS.fetch_sub(1, Ordering::Relaxed);
}

/// Forgets the other threads: the calling one is the only thread of a child that was forked.
pub(crate) fn forget_others() {
    THREADS.store(1, Ordering::Relaxed);
}

/// Notes that the calling thread of the program ends, though its home does not. Returns false if it
/// is the last one.
pub(crate) fn thread_returns() -> bool {
    let others = |threads| (threads > 1).then(|| threads - 1);
    THREADS.try_update(Ordering::AcqRel, Ordering::Relaxed, others).is_ok()
}

/// The course of a thread of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Runs,
    /// Its start routine has returned, and its destructors run.
    Returns,
    /// Its end was told.
    Over,
}

thread_local! {
    /// The course of the calling thread, unless that is the initial one.
    static COURSE: Cell<Course> = const { Cell::new(Course::Runs) };
}

/// The key by which each thread has a destructor. It tells the end of a thread of which no frame is
/// unwound: the C library ends a thread by a jump if code of the program has no tables for
/// unwinding. [`NO_KEY`]: the program has all keys.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: pthread_key_t = pthread_key_t::MAX;

/// Makes the key.
pub(crate) fn begin() {
    /// Runs at home, or among the destructors of a thread that returns.
    extern "C" fn destroy(_: *mut c_void) {
        if COURSE.get() == Course::Runs {
            tell();
        }
    }
    /// The last number with a value in the thread's own block: the first ones are those of the
    /// program, which may even use them before it makes them, and see that this fails.
    const NUMBER: pthread_key_t = 31;
    let mut passed_over = Vec::new();
    loop {
        let mut key = NO_KEY;
        // SAFETY: the destructor takes any value.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(destroy)) } != 0 {
            break;
        }
        if key >= NUMBER {
            KEY.store(key, Ordering::Relaxed);
            break;
        }
        passed_over.push(key);
    }
    for key in passed_over {
        // SAFETY: made above; it has no value.
        unsafe { libc::pthread_key_delete(key) };
    }
}

/// Makes a key of the program; in place of the engine's own one, if there is no other.
///
/// # Safety
///
/// As for `pthread_key_create`.
pub(crate) unsafe fn create_key(
    key: *mut pthread_key_t,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    // SAFETY: by this function's contract.
    let created = unsafe { libc::pthread_key_create(key, destructor) };
    if created != libc::EAGAIN {
        return created;
    }
    let own = KEY.swap(NO_KEY, Ordering::Relaxed);
    if own == NO_KEY {
        return created;
    }
    // SAFETY: the key is the engine's; its values own nothing. The rest as above.
    unsafe {
        libc::pthread_key_delete(own);
        libc::pthread_key_create(key, destructor)
    }
}

/// Begins the course of the calling thread.
pub(crate) fn begin_course() {
    COURSE.set(Course::Runs);
    let key = KEY.load(Ordering::Relaxed);
    if key != NO_KEY {
        // Without memory for the value, only an end by a jump would not be told.
        // SAFETY: any value but null has the destructor run.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(1)) };
    }
}

/// Notes that the start routine of the calling thread has returned, and its destructors run.
pub(crate) fn note_return() {
    COURSE.set(Course::Returns);
}

/// Notes that the end of the calling thread was told, though its home does not end.
pub(crate) fn note_told() {
    COURSE.set(Course::Over);
}

/// Tells the end of the calling thread, which a destructor ends: the one that would tell it may
/// have run.
pub(crate) fn tell_if_returned() {
    if COURSE.get() == Course::Returns {
        tell();
    }
}

/// Tells the end of the calling thread, unless it was told. The thread is at home, and does not
/// leave it again.
pub(crate) fn tell() {
    if COURSE.replace(Course::Over) == Course::Over {
        return;
    }
    // SAFETY: it has no argument.
    let thread = unsafe { libc::pthread_self() };
    let home = list::lock().remove(thread);
    if let Some(home) = home {
        if home.detached.get() {
            // SAFETY: the calling thread, which no other may join.
            unsafe { libc::pthread_detach(thread) };
        }
        parking::wake_all(&home.joiners);
    }
    thread_ends();
}

/// Notes that the calling thread ends: the process may end with it.
pub(crate) fn thread_ends() {
    if THREADS.fetch_sub(1, Ordering::AcqRel) == 1 {
        end_process_after(thread::id(), Mask::of_thread());
    }
}

/// Ends the process once its last thread, which calls, is gone: its destructors run first. Handlers
/// of the end find its signal mask.
fn end_process_after(last: u32, mask: Mask) {
    let end = move || {
        while is_alive(last) {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        mask.set();
        // SAFETY: no thread of the program runs any more.
        unsafe { libc::exit(0) };
    };
    let start = || std::thread::Builder::new().name("daiko-end".to_owned()).spawn(end);
    if mask::with_signals_blocked(start).is_err() {
        // SAFETY: as above, but for destructors of this thread.
        unsafe { libc::exit(0) };
    }
}

/// Returns true if the thread has not ended. The initial thread stays, as a zombie.
fn is_alive(id: u32) -> bool {
    thread::exists(id) && thread::state(id).is_some_and(|state| state != 'Z')
}
