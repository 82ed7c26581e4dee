//! The functions of `shim.c`.

use std::ffi::{c_char, c_int, c_void};

/// Requests in a window.
pub(crate) const WINDOW: usize = 64;

/// A request that has ended, as the shim reports it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawStatus {
    pub(crate) bytes: u64,
    pub(crate) source: i32,
    pub(crate) tag: i32,
    /// 0, or an error code of MPI.
    pub(crate) error: i32,
    pub(crate) cancelled: i32,
}

/// The memory of an array of requests, which only the shim reads.
#[repr(transparent)]
pub(crate) struct RawWindow(pub(crate) [u64; WINDOW]);

unsafe extern "C" {
    pub(crate) fn daiko_mpi_library(text: *mut c_char, size: c_int) -> c_int;
    pub(crate) fn daiko_mpi_init(
        granted: *mut c_int,
        world: *mut u64,
        neighbours: *mut c_int,
    ) -> c_int;
    pub(crate) fn daiko_mpi_finalize() -> c_int;
    pub(crate) fn daiko_mpi_error(
        code: c_int,
        class: *mut c_int,
        text: *mut c_char,
        size: c_int,
    ) -> c_int;
    pub(crate) fn daiko_mpi_extent(comm: u64, rank: *mut c_int, size: *mut c_int) -> c_int;
    pub(crate) fn daiko_mpi_split(comm: u64, colour: c_int, key: c_int, made: *mut u64) -> c_int;
    pub(crate) fn daiko_mpi_idup(comm: u64, place: *mut u64, request: *mut u64) -> c_int;
    pub(crate) fn daiko_mpi_made(place: *const u64) -> u64;
    pub(crate) fn daiko_mpi_free(comm: u64) -> c_int;
    pub(crate) fn daiko_mpi_isend(
        data: *const c_void,
        bytes: c_int,
        to: c_int,
        tag: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_irecv(
        data: *mut c_void,
        bytes: c_int,
        from: c_int,
        tag: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_improbe(
        from: c_int,
        tag: c_int,
        comm: u64,
        found: *mut c_int,
        message: *mut u64,
        status: *mut RawStatus,
    ) -> c_int;
    pub(crate) fn daiko_mpi_imrecv(
        data: *mut c_void,
        bytes: c_int,
        message: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_test(request: u64, ended: *mut c_int, status: *mut RawStatus) -> c_int;
    pub(crate) fn daiko_mpi_clear(window: *mut RawWindow);
    pub(crate) fn daiko_mpi_put(window: *mut RawWindow, at: c_int, request: u64);
    pub(crate) fn daiko_mpi_cancel(window: *mut RawWindow, at: c_int) -> c_int;
    pub(crate) fn daiko_mpi_testsome(
        window: *mut RawWindow,
        count: c_int,
        places: *mut c_int,
        status: *mut RawStatus,
    ) -> c_int;
    pub(crate) fn daiko_mpi_ibarrier(comm: u64, request: *mut u64) -> c_int;
    pub(crate) fn daiko_mpi_ibcast(
        data: *mut c_void,
        count: c_int,
        root: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_ireduce(
        data: *const c_void,
        result: *mut c_void,
        count: c_int,
        datatype: c_int,
        operation: c_int,
        root: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_iallreduce(
        data: *const c_void,
        result: *mut c_void,
        count: c_int,
        datatype: c_int,
        operation: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_igather(
        data: *const c_void,
        result: *mut c_void,
        count: c_int,
        root: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_iallgather(
        data: *const c_void,
        result: *mut c_void,
        count: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_iscatter(
        data: *const c_void,
        result: *mut c_void,
        count: c_int,
        root: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
    pub(crate) fn daiko_mpi_ialltoall(
        data: *const c_void,
        result: *mut c_void,
        count: c_int,
        comm: u64,
        request: *mut u64,
    ) -> c_int;
}

/// Returns the version of the library that is loaded.
pub(crate) fn library_version() -> String {
    // More than MPI_MAX_LIBRARY_VERSION_STRING of Open MPI (256) and MPICH (8192).
    let mut text = vec![0u8; 1 << 14];
    // SAFETY: the call writes within the size, and a zero at the end; MPI allows it at any time.
    unsafe { daiko_mpi_library(text.as_mut_ptr().cast(), text.len() as c_int) };
    text_of(&text)
}

/// Returns MPI's class and text of an error code.
pub(crate) fn explain(code: c_int) -> (c_int, String) {
    let (mut class, mut text) = (code, [0u8; 2048]);
    // SAFETY: the call writes to live locals, within the size; MPI is initialised, as it has
    // returned the code.
    unsafe { daiko_mpi_error(code, &mut class, text.as_mut_ptr().cast(), text.len() as c_int) };
    (class, text_of(&text))
}

fn text_of(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim_end().to_owned()
}
