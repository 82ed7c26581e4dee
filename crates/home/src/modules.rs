//! The static thread-locals of the modules that are loaded.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;

use crate::abi::{Abi, TlsOffset};

/// The bytes that a module has in each block, as offsets from the thread pointer.
pub(crate) type Part = Range<TlsOffset>;

/// Returns the part of the C library.
pub(crate) fn of_library(abi: &Abi) -> Option<Part> {
    all(abi).into_iter().find(|part| part.contains(&abi.errno))
}

/// Returns the parts of all modules with static thread-locals but the C library, and the lowest
/// offset of any.
pub(crate) fn parts(abi: &Abi) -> (Vec<Part>, TlsOffset) {
    let mut parts = all(abi);
    let lowest = parts.iter().map(|part| part.start).min().unwrap_or(0);
    parts.retain(|part| !part.contains(&abi.errno));
    (merged(parts), lowest)
}

/// Returns the parts of all modules with static thread-locals.
fn all(abi: &Abi) -> Vec<Part> {
    let below = (abi.bytes - abi.control_bytes) as isize;
    let mut found = Found { pointer: daiko_context::seat::thread_pointer(), parts: Vec::new() };
    // SAFETY: `look` takes what `found` is, for the time of the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found.parts.retain(|part| part.start >= -below && part.end <= 0);
    found.parts
}

struct Found {
    /// The calling context's thread pointer.
    pointer: usize,
    parts: Vec<Part>,
}

unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _bytes: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a module, and `parts` its own local.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
    if info.dlpi_tls_data.is_null() {
        return 0;
    }
    let start = info.dlpi_tls_data.addr().wrapping_sub(found.pointer) as isize;
    // SAFETY: the loader says where the module's headers lie, and how many it has.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let bytes = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(header) = bytes {
        found.parts.push(start..start.saturating_add(header.p_memsz as isize));
    }
    0
}

/// Joins parts that are neighbours: less than a word lies between them.
fn merged(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by_key(|part| part.start);
    let mut merged: Vec<Part> = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        match merged.last_mut() {
            Some(last) if part.start - last.end < 8 => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let all = merged(vec![-8..-4, -64..-32, -30..-9, 0..0]);
        assert_eq!((all.len(), &all[0]), (1, &(-64..-4)));
        assert_eq!(merged(vec![-64..-32, -16..-4]), [-64..-32, -16..-4]);
    }

    #[test]
    fn this_test_has_thread_locals_and_the_library_is_left_out() {
        let abi = Abi::get().unwrap();
        let (parts, lowest) = parts(abi);
        assert!(!parts.is_empty() && lowest < 0);
        assert!(parts.iter().all(|part| !part.contains(&abi.errno)));
    }
}
