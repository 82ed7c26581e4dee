//! A memory barrier on other threads at the caller's expense.
//!
//! With a compiler fence on the fast side it replaces `fence(SeqCst)` there: all that another
//! thread did before the barrier is visible to the caller after it, and all that the caller did
//! before is visible to that thread afterwards.

/// Registers this process for [`all_threads`]. Returns false if the kernel or a filter refuses.
///
/// Registering again is cheap and has no further effect.
pub fn register() -> bool {
    call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
}

/// Runs a full memory barrier on every running thread of this process.
///
/// # Panics
///
/// If [`register`] has not returned `true` in this process.
pub fn all_threads() {
    let result = call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    assert_eq!(result, 0, "membarrier::all_threads without a successful membarrier::register");
}

/// Registers this process for [`all_processes`]. Returns false if the kernel or a filter refuses.
///
/// Each process registers for itself, a forked child as well.
pub fn register_globally() -> bool {
    call(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0
}

/// Runs a full memory barrier on every running thread of every [registered](register_globally)
/// process of the system.
///
/// # Panics
///
/// If the kernel lacks this barrier. It has the barrier if [`register_globally`] returned true.
pub fn all_processes() {
    let result = call(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    assert_eq!(result, 0, "membarrier::all_processes where register_globally is refused");
}

fn call(command: libc::c_int) -> libc::c_long {
    // SAFETY: membarrier takes two plain integers and accesses no memory of this process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_processes_may_issue_barriers() {
        if !register() || !register_globally() {
            println!("skipped: this kernel or container refuses membarrier");
            return;
        }
        all_threads();
        all_processes();
        assert!(register() && register_globally(), "registering again keeps working");
    }
}
