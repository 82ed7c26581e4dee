//! Where a fiber's own code uses the runtime: noted in its course, so that its worker's death in between is understood.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use daiko_core::fiber::{Course, Lent};

use super::is_active;
use crate::fiber::{self, ControlBlock};
use crate::worker;

thread_local! {
    /// The course of the call that this thread of a pool makes; null: it makes none.
    static COURSE: Cell<*const Course> = const { Cell::new(ptr::null()) };
}

/// Runs `make`, a call that blocks the calling thread, under the `course` of that call. It does not unwind.
pub fn with_course(course: &Course, make: impl FnOnce()) {
    COURSE.set(course);
    make();
    COURSE.set(ptr::null());
}

/// Returns the course of the call that this thread makes, if it belongs to a pool.
#[cold]
fn course_of_thread() -> Option<&'static Course> {
    // SAFETY: the course lies in the frame of the fiber that waits for this call, and is asked for
    // from inside of it.
    unsafe { COURSE.get().as_ref() }
}

/// A call by which a fiber's own code uses the runtime; until dropped.
///
/// A call inside of another is part of that one.
#[must_use = "the call ends where this is dropped"]
pub struct Call {
    /// Whose it is; `None`: nobody's who asks for it.
    fiber: Option<&'static ControlBlock>,
    /// The course of whoever comes from its own code, and is back there at the end. Who is no fiber has one as well, if it
    /// makes a call that blocks.
    entered: Cell<Option<&'static Course>>,
    /// It is one fiber's.
    not_send: PhantomData<*const ()>,
}

/// Says that the caller, if it is a fiber, is in the runtime until the call is dropped. For the top of each function by
/// which users can leave half done what others see. Where workers are threads it costs a load and a branch.
#[inline(always)]
pub fn call() -> Call {
    let (fiber, course) = if notes_calls() { whose() } else { (None, None) };
    let entered = course.filter(|course| course.enter(std::thread::panicking()));
    Call { fiber, entered: Cell::new(entered), not_send: PhantomData }
}

/// The value of an expression that is evaluated in a [call]: for what is so short that a guard would show where workers
/// are threads, or has to be inlined there up to a switch. It is no way out of a function.
#[doc(hidden)]
#[macro_export]
macro_rules! in_call {
    ($what:expr) => {
        if $crate::process::notes_calls() { $crate::process::in_call_slow(|| $what) } else { $what }
    };
}

#[cold]
#[inline(never)]
pub fn in_call_slow<R>(what: impl FnOnce() -> R) -> R {
    let _call = call();
    what()
}

/// Runs `code`, which is the user's, in the middle of a call: there nothing may be half done. A panic of it that the runtime
/// catches is to be caught inside of `code`, as what goes by here makes the call one that unwinds.
#[inline]
pub fn own_code<R>(code: impl FnOnce() -> R) -> R {
    let _own = if notes_calls() { OwnCode::begin() } else { None };
    code()
}

/// Says that the call is about to raise a panic, or has the user's code do so.
#[cold]
#[inline(never)]
pub fn unwinds() {
    if notes_calls()
        && let Some(course) = course()
    {
        course.unwind();
    }
}

/// Asserts, in builds with debug assertions, that the caller is no fiber in its own code: what it is about to do can be half
/// done, and so belongs into a call.
#[inline]
pub fn assert_in_call() {
    debug_assert!(
        course().is_none_or(|course| !course.is_in_own_code()),
        "a fiber uses the runtime outside of a process::Call"
    );
}

/// Whether calls are noted: where somebody asks for the course of fibers, as builds with debug assertions do everywhere.
#[inline(always)]
pub fn notes_calls() -> bool {
    cfg!(debug_assertions) || is_active()
}

/// The fiber that calls.
#[inline(always)]
pub(super) fn fiber() -> Option<&'static ControlBlock> {
    let worker =
        if cfg!(debug_assertions) { worker::current() } else { worker::current_of_process() };
    worker?.running()
}

#[inline(always)]
fn whose() -> (Option<&'static ControlBlock>, Option<&'static Course>) {
    let fiber = fiber();
    (fiber, course_of(fiber))
}

/// Its course, or that of the call that blocks which this thread makes for a fiber.
#[inline(always)]
fn course() -> Option<&'static Course> {
    course_of(fiber())
}

#[inline(always)]
fn course_of(fiber: Option<&'static ControlBlock>) -> Option<&'static Course> {
    match fiber {
        Some(fiber) => Some(&fiber.course),
        None => course_of_thread(),
    }
}

impl Call {
    /// The fiber whose call it is, where workers are processes.
    #[inline(always)]
    pub(super) fn fiber(&self) -> Option<&'static ControlBlock> {
        self.fiber.filter(|_| !cfg!(debug_assertions) || is_active())
    }

    /// Says that the caller, if it is no fiber but makes a call that blocks, has gained what nobody gives back in its stead: to
    /// the end of that it is as in the runtime.
    #[inline]
    pub(super) fn lasts(&self) {
        if self.fiber.is_none() {
            self.entered.set(None);
        }
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(course) = self.entered.get()
            && !course.leave()
            && let Some(fiber) = self.fiber
        {
            // SAFETY: the fiber calls, on its own stack, and does not come back to these frames.
            unsafe { fiber::die(fiber, None) }
        }
    }
}

/// Own code of a fiber that the runtime runs in the middle of a call; until dropped.
struct OwnCode {
    course: &'static Course,
    lent: Lent,
}

impl OwnCode {
    fn begin() -> Option<Self> {
        let course = course()?;
        Some(OwnCode { course, lent: course.lend() })
    }
}

impl Drop for OwnCode {
    fn drop(&mut self) {
        self.course.take_back(self.lent, std::thread::panicking());
    }
}
