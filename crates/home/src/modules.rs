//! The static thread-locals of the C library itself.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;

use crate::abi::{Abi, TlsOffset};

/// Bytes of each block, as offsets from the thread pointer.
pub(crate) type Part = Range<TlsOffset>;

/// Returns the part of the C library; `None`: the loader does not tell.
pub(crate) fn library(abi: &Abi) -> Option<Part> {
    let mut search =
        Search { pointer: daiko_context::seat::thread_pointer(), errno: abi.errno, library: None };
    // SAFETY: `look` takes what `search` is, for the time of the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.library
}

struct Search {
    /// The calling context's thread pointer.
    pointer: usize,
    errno: TlsOffset,
    library: Option<Part>,
}

/// Looks whether a module is the C library: its part has `errno`.
///
/// The loader tells a module's address as it is known to the calling context. A context learns of a
/// module that is loaded later only when it uses it in certain ways. The C library is always known.
unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _bytes: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a module, and `library` its own local.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    if info.dlpi_tls_data.is_null() {
        return 0;
    }
    let start = info.dlpi_tls_data.addr().wrapping_sub(search.pointer) as isize;
    // SAFETY: the loader says where the module's headers lie, and how many it has.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_TLS) else {
        return 0;
    };
    let part = start..start.saturating_add(header.p_memsz as isize);
    if part.contains(&search.errno) {
        search.library = Some(part);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Unsupported;

    #[test]
    fn the_library_is_found_by_errno() {
        let abi = match Abi::probe() {
            Err(reason) if cfg!(not(target_arch = "x86_64")) => {
                return assert_eq!(reason, Unsupported::Processor);
            }
            abi => abi.unwrap(),
        };
        let part = library(&abi).unwrap();
        assert!(part.contains(&abi.errno) && part.end <= 0);
    }
}
