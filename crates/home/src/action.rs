//! Actions of signals that the C library keeps for itself: its own `sigaction` refuses them.

use std::ffi::c_int;

/// An action, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// The address of the handler, `SIG_DFL` or `SIG_IGN`.
    pub handler: usize,
    /// Flags `SA_..`.
    pub flags: u64,
    // The kernel of riscv64 has code of its own for that.
    #[cfg(not(target_arch = "riscv64"))]
    restorer: usize,
    mask: u64,
}

impl Action {
    /// Returns the address of the code by which the handler returns.
    #[cfg(not(target_arch = "riscv64"))]
    pub fn restorer(&self) -> usize {
        self.restorer
    }

    /// Returns true if there is a handler.
    pub fn is_handled(&self) -> bool {
        self.handler > libc::SIG_IGN
    }
}

/// Returns the action of a signal, and sets a new one. `None`: the kernel refuses.
pub fn exchange(signal: c_int, new: Option<&Action>) -> Option<Action> {
    const MASK_BYTES: usize = size_of::<u64>();
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: zeros are an action.
    let mut old: Action = unsafe { std::mem::zeroed() };
    // SAFETY: the actions have the kernel's layout, and a new handler is one for this signal.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, &raw mut old, MASK_BYTES) };
    (result == 0).then_some(old)
}
