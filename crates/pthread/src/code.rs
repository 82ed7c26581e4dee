//! The code of loaded libraries.

use std::ffi::{c_int, c_void};
use std::ops::Range;

/// A search for the segment around an address.
struct Search {
    address: usize,
    found: Option<Range<usize>>,
}

/// Returns the addresses of the segment that has the instruction at `address`.
pub(crate) fn around(address: usize) -> Option<Range<usize>> {
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes an object with its headers; `search` is the caller's.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        // SAFETY: as above.
        let headers =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        let ranges = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let start = (object.dlpi_addr + header.p_vaddr) as usize;
            start..start + header.p_memsz as usize
        });
        search.found = ranges.into_iter().find(|range| range.contains(&search.address));
        search.found.is_some().into()
    }
    let mut search = Search { address, found: None };
    // SAFETY: the function takes an object, and the search.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}
