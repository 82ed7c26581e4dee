//! Resident memory.

use daiko_sys::limits;

use crate::kit::Failure;

/// Resident bytes of this process, plus those of its page tables.
pub(super) fn resident_bytes() -> Result<u64, Failure> {
    let field = |name| {
        let value = limits::status_kib(name);
        value.ok_or_else(|| {
            Failure::Unavailable(format!("/proc/self/status does not tell {name}: mount /proc"))
        })
    };
    Ok((field("VmRSS")? + field("VmPTE")?) * 1024)
}

/// Creates places for `count` handles, in resident memory.
pub(super) fn places<T>(count: usize) -> Vec<Option<T>> {
    // Opaque to the compiler: otherwise it would request zeroed memory, which is not resident.
    (0..count).map(|_| std::hint::black_box(None)).collect()
}
