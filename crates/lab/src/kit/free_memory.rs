//! Memory available to programs.

use std::fs;

use daiko_sys::limits;

use super::failure::{Failure, Skip};

/// More bytes than a suspended fiber with thread-locals of its own takes: those of a borrowed one,
/// and a page of thread-locals.
pub(crate) const FIBER: u64 = 10_000;
/// More bytes than a suspended fiber takes that borrows its thread-locals: a page of stack, page
/// tables, and the runtime's share.
pub(crate) const BORROWED_FIBER: u64 = 5000;

/// Bytes usable without swapping, as estimated by the kernel.
pub(crate) fn available_bytes() -> Option<u64> {
    limits::kib_field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")?.checked_mul(1024)
}

/// Fails with the reason to skip unless `count` objects of `each` bytes fit into `available` bytes.
pub(crate) fn room(count: usize, each: u64, available: Option<u64>) -> Result<(), Skip> {
    let needed = count as u64 * each;
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    match available {
        Some(available) if needed > available => Err(Skip::new(format!(
            "needs {} MiB of memory; {} are available",
            mebibytes(needed),
            mebibytes(available)
        ))),
        _ => Ok(()),
    }
}

/// Fails with the reason to skip if this machine reports too little memory for this many fibers.
pub(crate) fn room_for_fibers(fibers: usize) -> Result<(), Skip> {
    room(fibers, FIBER, available_bytes())
}

/// The bytes of process `pid` that are resident, and those of its page tables.
///
/// # Errors
/// If `/proc` does not tell.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, Failure> {
    let file = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&file).unwrap_or_default();
    let [resident, tables] = ["VmRSS", "VmPTE"].map(|name| limits::kib_field(&status, name));
    let kib = resident.zip(tables).map(|(resident, tables)| resident + tables);
    kib.map(|kib| kib * 1024).ok_or_else(|| {
        Failure::Unavailable(format!("{file} does not tell VmRSS and VmPTE: mount /proc"))
    })
}
