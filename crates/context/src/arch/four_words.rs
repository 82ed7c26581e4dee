//! Frames of suspended contexts of four words, as the stack pointer is a multiple of 16.
//!
//! ```text
//!  left by `switch`        left by `switch_fp`     left by `switch_own`
//!
//!  | frames ..     |       | frames ..     |       | frames ..     |
//!  +---------------+       +---------------+       +---------------+
//!  | frame pointer |       | frame pointer |       | frame pointer |
//!  +---------------+       +---------------+       +---------------+
//!  | base          |       | base          |       | base          |
//!  +---------------+       +---------------+       +---------------+
//!  | unused        |       | FP control    |       | thread pointer|
//!  +---------------+       +---------------+       +---------------+
//!  | resume        |<-sp   | resume        |<-sp   | resume        |<-sp
//!  +---------------+       +---------------+       +---------------+
//!
//!  made by `prepare`       made by `prepare_own`
//!
//!  top, 16-byte aligned    top, 16-byte aligned
//!  +---------------+       +---------------+
//!  | argument      |       | argument      |
//!  +---------------+       +---------------+
//!  | entry         |       | entry         |
//!  +---------------+       +---------------+
//!  | unused        |       | thread pointer|
//!  +---------------+       +---------------+
//!  | `first_frame` |<-sp   | `first_frame_own`   |<-sp
//!  +---------------+       +---------------+
//! ```
//!
//! The base is the register by which the compiler finds locals in frames that it realigns. The
//! lowest word is always the address to continue at. So every kind of context can be resumed by
//! every kind of switch, and each context restores its own registers. Nothing is read or written
//! below the stack pointer at any time: there is no red zone, and a signal handler may write there.

use daiko_core::inspect::FrameLayout;

use super::stack_pointer::StackPointer;

/// The frame left by [`switch`](super::switch), for debuggers.
pub const FRAME: FrameLayout = FrameLayout { thread_pointer: u32::MAX, ..OWN_FRAME };

/// The frame left by [`switch_own`](super::switch_own), for debuggers.
pub const OWN_FRAME: FrameLayout = FrameLayout {
    instruction_pointer: 0,
    thread_pointer: 8,
    base: 16,
    frame_pointer: 24,
    bytes: 32,
    reserved: 0,
};

/// Makes the first frame of a fresh stack with these lower words.
///
/// # Safety
///
/// As for `prepare`.
pub(super) unsafe fn write_frame(
    top: *mut u8,
    [resume, second]: [*const (); 2],
    entry: unsafe extern "C" fn(*mut u8) -> !,
    arg: *mut u8,
) -> StackPointer {
    // SAFETY: the caller guarantees room for more than these four words below `top`, which is
    // aligned for them.
    unsafe {
        let bottom = top.cast::<[*const (); 4]>().sub(1);
        bottom.write([resume, second, entry as *const (), arg.cast_const().cast()]);
        StackPointer(bottom.cast())
    }
}
