//! Tells AddressSanitizer or ThreadSanitizer which stack runs, in builds with
//! `cfg(daiko_sanitize = "address")` or `cfg(daiko_sanitize = "thread")`.
//!
//! Every context has a [`Context`]. While the context is suspended, the word below its frame, in
//! the red zone, holds the address of that: no handler of a signal writes there.
//!
//! ```text
//!  | frame as in `arch/x86_64/switch.rs` |
//!  +-------------------------------------+
//!  | resume                              |<-sp
//!  +-------------------------------------+
//!  | address of the `Context`            |
//!  +-------------------------------------+
//! ```
//!
//! A switch has three steps. [`depart`] announces the stack to come. [`enter`] makes the next
//! context's history of calls the current one of ThreadSanitizer, so only assembly follows it.
//! [`arrive`] runs on the other stack.
//!
//! The state is in thread-locals, so all contexts run with those of their kernel thread: a build
//! for a sanitizer has no contexts with a control block of their own. The runtimes of the
//! sanitizers keep their state of a thread in thread-locals as well.

use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr;

use crate::overflow;

/// The function that a fresh stack begins with.
type Entry = unsafe extern "C" fn(*mut u8) -> !;

/// A context as the sanitizer knows it. Used by the thread that runs the context, or hands over to
/// it.
pub(crate) struct Context {
    /// The lowest byte of the stack.
    bottom: *const c_void,
    size: usize,
    /// AddressSanitizer: where the locals of suspended frames are.
    fake_stack: *mut c_void,
    /// ThreadSanitizer: its name of the context.
    fiber: *mut c_void,
    /// The context is never resumed.
    ends: bool,
    /// The function to begin with, and its argument.
    begin: Option<(Entry, *mut u8)>,
}

impl Context {
    const fn of_thread() -> Self {
        Context {
            bottom: ptr::null(),
            size: 0,
            fake_stack: ptr::null_mut(),
            fiber: ptr::null_mut(),
            ends: false,
            begin: None,
        }
    }
}

thread_local! {
    /// The context of the thread's own stack.
    static OF_THREAD: UnsafeCell<Context> = const { UnsafeCell::new(Context::of_thread()) };
    /// The context that runs; null before the first switch.
    static RUNNING: Cell<*mut Context> = const { Cell::new(ptr::null_mut()) };
    /// The context that the last switch has left.
    static LEFT: Cell<*mut Context> = const { Cell::new(ptr::null_mut()) };
}

/// Returns the context that runs.
fn running() -> *mut Context {
    RUNNING.with(|running| {
        if running.get().is_null() {
            let own = OF_THREAD.with(UnsafeCell::get);
            // SAFETY: only this thread uses it, and has no other reference to it.
            unsafe { (*own).fiber = interface::current() };
            running.set(own);
        }
        running.get()
    })
}

/// Makes the context of a fresh stack that ends at `top` and begins with `entry`. Returns the
/// function and the argument to begin with instead, which is also the word below the frame.
///
/// # Safety
///
/// The stack is unused, and its context is resumed once.
pub(crate) unsafe fn prepare(top: *mut u8, entry: Entry, arg: *mut u8) -> (Entry, *mut u8) {
    let bottom = overflow::bottom_of(top).expect("a build for a sanitizer uses stacks of slabs");
    let size = top.addr() - bottom.addr();
    // The frames that ended there never returned, so they have left their marks.
    // SAFETY: the stack is unused.
    unsafe { interface::clear(bottom.cast(), size) };
    let context = Box::new(Context {
        bottom: bottom.cast(),
        size,
        fiber: interface::create(),
        begin: Some((entry, arg)),
        ..Context::of_thread()
    });
    (begin, Box::into_raw(context).cast())
}

/// The begin of every fresh stack.
unsafe extern "C" fn begin(context: *mut u8) -> ! {
    arrive();
    // SAFETY: `prepare` has passed its context, which lives until it ends.
    let (entry, arg) = unsafe { (*context.cast::<Context>()).begin }.expect("it was prepared");
    // SAFETY: as the caller of `prepare` has asked for.
    unsafe { entry(arg) }
}

/// Notes that the context that runs is never resumed after the next switch.
///
/// # Safety
///
/// It is not, and [`prepare`] made it.
pub(crate) unsafe fn ends() {
    // SAFETY: the context that runs is valid, and only this thread uses it.
    unsafe { (*running()).ends = true };
}

/// Announces a switch to the context whose frame is at `to`. Returns the word for the frame of the
/// context that runs, and the name of the other one for [`enter`].
///
/// # Safety
///
/// A context is suspended there, and the switch follows.
#[inline(never)]
pub(crate) unsafe fn depart(to: *mut u8) -> (*mut Context, *mut c_void) {
    let me = running();
    let next: *mut Context;
    // In assembly, as a sanitizer takes an access below the stack pointer for a fault.
    // SAFETY: the switch or `prepare` has left the address there.
    unsafe {
        asm!(
            "mov {next}, qword ptr [{to} - 8]",
            to = in(reg) to,
            next = out(reg) next,
            options(nostack, preserves_flags, readonly),
        );
    }
    LEFT.set(me);
    RUNNING.set(next);
    // SAFETY: both are valid; the one that runs is this thread's, the other one was handed to it.
    unsafe {
        let fake_stack = if (*me).ends { ptr::null_mut() } else { &raw mut (*me).fake_stack };
        interface::start_switch(fake_stack, (*next).bottom, (*next).size);
        (me, (*next).fiber)
    }
}

/// Makes `fiber` the context of ThreadSanitizer.
///
/// # Safety
///
/// `fiber` is from [`depart`], and the caller, which this is inlined into, switches at once.
#[inline(always)]
pub(crate) unsafe fn enter(fiber: *mut c_void) {
    // SAFETY: by this function's contract.
    unsafe { interface::enter(fiber) };
}

/// Completes a switch, on the stack that it led to.
#[inline(never)]
pub(crate) fn arrive() {
    let (me, left) = (running(), LEFT.get());
    // SAFETY: the context that runs is this thread's, and so is the other one, until the caller
    // hands it on.
    unsafe {
        interface::finish_switch((*me).fake_stack, &mut (*left).bottom, &mut (*left).size);
        if (*left).ends {
            interface::destroy((*left).fiber);
            drop(Box::from_raw(left));
        }
    }
}

/// A call on another stack, which becomes that of the context until its end.
struct StackCall {
    function: unsafe extern "C" fn(*mut u8),
    arg: *mut u8,
    bottom: *const c_void,
    size: usize,
    /// The stack of the caller.
    outer_bottom: *const c_void,
    outer_size: usize,
}

/// Calls `function(arg)` on the stack that ends at `top`, by `call`.
///
/// # Safety
///
/// As for [`call_on`](crate::call_on), of which `call` is the assembly.
#[inline(never)]
pub(crate) unsafe fn call_on(
    top: *mut u8,
    function: unsafe extern "C" fn(*mut u8),
    arg: *mut u8,
    call: unsafe extern "C" fn(*mut u8, unsafe extern "C" fn(*mut u8), *mut u8),
) {
    let bottom = overflow::bottom_of(top).expect("a build for a sanitizer uses stacks of slabs");
    let (bottom, size) = (bottom.cast_const().cast(), top.addr() - bottom.addr());
    let (outer_bottom, outer_size) = (ptr::null(), 0);
    let mut inner = StackCall { function, arg, bottom, size, outer_bottom, outer_size };
    let (mut fake_stack, mut left, mut left_size) = (ptr::null_mut(), ptr::null(), 0);
    // SAFETY: the call follows, by this function's contract, and comes back here.
    unsafe {
        interface::clear(bottom, size);
        interface::start_switch(&mut fake_stack, bottom, size);
        call((&raw mut inner).cast(), begin_call, top);
        interface::finish_switch(fake_stack, &mut left, &mut left_size);
    }
}

/// Runs a [`StackCall`] on its stack. No local of it is in a fake stack, which ends before it does.
unsafe extern "C" fn begin_call(call: *mut u8) {
    let call: *mut StackCall = call.cast();
    // SAFETY: `call_on` has passed a valid call. The context that runs is this thread's; it is the
    // same at the end, though the thread may be another.
    unsafe {
        let no_fake_stack = ptr::null_mut();
        let (bottom, size) = (&mut (*call).outer_bottom, &mut (*call).outer_size);
        interface::finish_switch(no_fake_stack, bottom, size);
        ((*running()).bottom, (*running()).size) = ((*call).bottom, (*call).size);
        ((*call).function)((*call).arg);
        ((*running()).bottom, (*running()).size) = ((*call).outer_bottom, (*call).outer_size);
        // The fake stack ends.
        interface::start_switch(ptr::null_mut(), (*call).outer_bottom, (*call).outer_size);
    }
}

#[cfg(daiko_sanitize = "address")]
mod interface {
    //! `sanitizer/common_interface_defs.h` and `asan_interface.h`.

    use std::ffi::c_void;
    use std::ptr;

    unsafe extern "C" {
        #[link_name = "__sanitizer_start_switch_fiber"]
        pub(super) fn start_switch(saved: *mut *mut c_void, bottom: *const c_void, size: usize);
        #[link_name = "__sanitizer_finish_switch_fiber"]
        pub(super) fn finish_switch(
            saved: *mut c_void,
            bottom: &mut *const c_void,
            size: &mut usize,
        );
        #[link_name = "__asan_unpoison_memory_region"]
        pub(super) fn clear(bottom: *const c_void, size: usize);
    }

    pub(super) fn current() -> *mut c_void {
        ptr::null_mut()
    }

    pub(super) fn create() -> *mut c_void {
        ptr::null_mut()
    }

    pub(super) unsafe fn destroy(_: *mut c_void) {}

    #[inline(always)]
    pub(super) unsafe fn enter(_: *mut c_void) {}
}

#[cfg(daiko_sanitize = "thread")]
mod interface {
    //! `sanitizer/tsan_interface.h`.

    use std::ffi::{c_uint, c_void};

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    }

    pub(super) unsafe fn start_switch(_: *mut *mut c_void, _: *const c_void, _: usize) {}

    pub(super) unsafe fn finish_switch(_: *mut c_void, _: &mut *const c_void, _: &mut usize) {}

    pub(super) unsafe fn clear(_: *const c_void, _: usize) {}

    pub(super) fn current() -> *mut c_void {
        // SAFETY: returns the name of the calling context.
        unsafe { __tsan_get_current_fiber() }
    }

    pub(super) fn create() -> *mut c_void {
        // SAFETY: makes a context, without flags.
        unsafe { __tsan_create_fiber(0) }
    }

    pub(super) unsafe fn destroy(fiber: *mut c_void) {
        // SAFETY: the caller has left the fiber for good.
        unsafe { __tsan_destroy_fiber(fiber) };
    }

    /// Flag 0: the context that leaves happens before the next one, as both run on one thread.
    #[inline(always)]
    pub(super) unsafe fn enter(fiber: *mut c_void) {
        // SAFETY: by the caller's contract.
        unsafe { __tsan_switch_to_fiber(fiber, 0) };
    }
}
