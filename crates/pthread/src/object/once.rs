//! `pthread_once`.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use daiko_rt::Deadline;

use super::scratch::{Scratch, done};
use crate::atomic::{AtomicU32, Ordering};
use crate::parking::{self, Queue};
use crate::real;
use crate::waits::{Target, TargetKind};

/// The initializer has run.
const DONE: u32 = 2;
/// The initializer runs, in the process with this number; other processes have inherited a run that
/// does not go on.
fn runs() -> u32 {
    std::process::id() << 2 | 1
}

/// The waiters of all words, by address.
static WAITERS: [Queue; 64] = [const { Queue::new(0) }; 64];

fn waiters(word: &AtomicU32) -> &'static Queue {
    let address = std::ptr::from_ref(word).addr();
    &WAITERS[(address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58]
}

/// Sets the word back if the initializer is left by an unwind, once. The end of the thread calls
/// `undo` where frames of the program cannot be unwound; else the destructor is the first.
struct Running<'w> {
    word: &'w AtomicU32,
    is_left: Cell<bool>,
}

impl Running<'_> {
    fn leave(&self) {
        if !self.is_left.replace(true) {
            // Release: pairs with the Acquire of the next run.
            self.word.store(0, Ordering::Release);
            parking::wake_all(waiters(self.word));
        }
    }

    /// A cleanup handler of the C library: `running` is the one that is left.
    unsafe extern "C" fn undo(running: *mut c_void) {
        // SAFETY: by the contract of the handler, which is popped before the value goes.
        unsafe { &*running.cast::<Running<'_>>() }.leave();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// # Safety
///
/// As for `pthread_once`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_once(
    once: *mut libc::pthread_once_t,
    run: extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: by this function's contract.
    let word = unsafe { &*once.cast::<AtomicU32>() };
    // Acquire: pairs with the Release below.
    while word.load(Ordering::Acquire) != DONE {
        let (seen, runs) = (word.load(Ordering::Acquire), runs());
        if seen == DONE {
            break;
        }
        if seen == runs {
            let runs = || word.load(Ordering::Acquire) == runs;
            parking::wait(
                waiters(word),
                Target::new(TargetKind::Once, word),
                Deadline::NEVER,
                runs,
            );
            continue;
        }
        // Acquire: as above.
        match word.compare_exchange(seen, runs, Ordering::Acquire, Ordering::Acquire) {
            Err(_) => {}
            Ok(_) => {
                let running = Running { word, is_left: Cell::new(false) };
                let mut cleanup = MaybeUninit::uninit();
                let this = (&raw const running).cast_mut().cast();
                // SAFETY: the buffer and the value live until the handler is popped, or has run.
                unsafe { real::_pthread_cleanup_push(cleanup.as_mut_ptr(), Running::undo, this) };
                run();
                // SAFETY: as above.
                unsafe { real::_pthread_cleanup_pop(cleanup.as_mut_ptr(), 0) };
                std::mem::forget(running);
                // Release: pairs with the Acquire above.
                word.store(DONE, Ordering::Release);
                parking::wake_all(waiters(word));
            }
        }
    }
    0
}

/// See [`layout`](super::layout).
pub(super) fn check_layout() -> Option<()> {
    extern "C" fn nothing() {}
    let mut once = Scratch::<libc::pthread_once_t, 1>::new(|_| 0)?;
    // SAFETY: zeros are a word before its initializer has run.
    done(unsafe { real::pthread_once(once.pointer(), nothing) })?;
    once.has(&[(0, DONE)])
}
