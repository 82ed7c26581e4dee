//! A memory barrier on every other thread of this process, paid by the caller alone.

/// Registers this process for [`all_threads`]; `false` where the kernel or a filter refuses.
///
/// Registering again is cheap and has no further effect.
pub fn register() -> bool {
    call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
}

/// Runs a full memory barrier on every running thread of this process.
///
/// With a compiler fence on the fast side this replaces `fence(SeqCst)` there:
/// what another thread did before the barrier is visible to the caller after
/// it, and what the caller did before is visible to that thread afterwards.
///
/// # Panics
///
/// If [`register`] has not returned `true` in this process.
pub fn all_threads() {
    let result = call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    assert_eq!(result, 0, "membarrier::all_threads without a successful membarrier::register");
}

fn call(command: libc::c_int) -> libc::c_long {
    // SAFETY: membarrier takes two plain integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_processes_may_issue_barriers() {
        if !register() {
            println!("skipped: this kernel or container refuses membarrier");
            return;
        }
        all_threads();
        assert!(register(), "registering again keeps working");
    }
}
