//! Levels of threads, and versions of the library: functions of MPI that this program replaces, as
//! a profiler does, pretend another library.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use daiko_mpi::{InitError, MpiError};

use crate::launch::{launch, nothing_is_left, other};

/// The variable with the level that `MPI_Init_thread` pretends to grant, and its values.
const LEVEL: &str = "DAIKO_TEST_MPI_LEVEL";
const FUNNELED: &str = "1";
const SERIALIZED: &str = "2";
/// The variable with a version that the library pretends to have.
const VERSION: &str = "DAIKO_TEST_MPI_VERSION";

/// The variable with a rank that pretends to be dead, and that of the error code then.
pub(crate) const DEAD: &str = "DAIKO_TEST_MPI_DEAD";
pub(crate) const MPI_ERROR: &str = "DAIKO_TEST_MPI_ERROR";

unsafe extern "C" {
    fn PMPI_Improbe(
        source: c_int,
        tag: c_int,
        comm: *mut c_void,
        found: *mut c_int,
        message: *mut c_void,
        status: *mut c_void,
    ) -> c_int;
    fn PMPI_Init_thread(
        count: *mut c_int,
        arguments: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    fn PMPI_Get_library_version(version: *mut c_char, length: *mut c_int) -> c_int;
    fn PMPI_Testsome(
        count: c_int,
        requests: *mut c_void,
        ended: *mut c_int,
        places: *mut c_int,
        statuses: *mut c_void,
    ) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Init_thread(
    count: *mut c_int,
    arguments: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        let error = PMPI_Init_thread(count, arguments, required, provided);
        if let Ok(level) = std::env::var(LEVEL) {
            *provided = level.parse().unwrap();
        }
        error
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Get_library_version(version: *mut c_char, length: *mut c_int) -> c_int {
    // SAFETY: passed on to the caller; the text is shorter than any version.
    unsafe {
        let error = PMPI_Get_library_version(version, length);
        if let Ok(text) = std::env::var(VERSION) {
            version.copy_from(text.as_ptr().cast(), text.len());
            *version.add(text.len()) = 0;
        }
        error
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Improbe(
    source: c_int,
    tag: c_int,
    // A pointer in Open MPI, a number in MPICH: both are in one register.
    comm: *mut c_void,
    found: *mut c_int,
    message: *mut c_void,
    status: *mut c_void,
) -> c_int {
    static PRETENCE: OnceLock<Option<(c_int, c_int)>> = OnceLock::new();
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match *PRETENCE.get_or_init(|| number(DEAD).zip(number(MPI_ERROR))) {
        Some((dead, error)) if source < 0 || source == dead => return error,
        _ => {}
    }
    // SAFETY: passed on to the caller.
    unsafe { PMPI_Improbe(source, tag, comm, found, message, status) }
}

/// The number of looks that run at this moment: with one thread at a time, each is alone.
static LOOKS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Testsome(
    count: c_int,
    requests: *mut c_void,
    ended: *mut c_int,
    places: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    use std::sync::atomic::Ordering;
    assert_eq!(LOOKS.fetch_add(1, Ordering::SeqCst), 0, "two looks at once");
    // SAFETY: passed on to the caller.
    let error = unsafe { PMPI_Testsome(count, requests, ended, places, statuses) };
    LOOKS.fetch_sub(1, Ordering::SeqCst);
    error
}

#[test]
fn funneled_is_refused() {
    let body = || {
        let error = daiko_mpi::init().unwrap_err();
        assert_eq!(error, InitError::ThreadLevel("MPI_THREAD_FUNNELED"));
        assert!(error.to_string().starts_with("MPI has granted MPI_THREAD_FUNNELED: "));
    };
    let level = [(LEVEL, FUNNELED)];
    let Some(launched) = launch("levels::funneled_is_refused", 2, &level, body) else { return };
    assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
}

#[test]
fn serialized_calls_are_made_one_at_a_time() {
    let body = || {
        let mut mpi = daiko_mpi::init().unwrap();
        let world = mpi.world().clone();
        let refused = world.split(Some(0), 0).unwrap_err();
        assert_eq!(refused, MpiError::NeedsMultiple("Comm::split"));
        let own = world.dup().unwrap();
        daiko::run(move || {
            let fiber = |tag: i32| {
                let world = own.clone();
                daiko::spawn(move || {
                    for round in 0..50u64 {
                        let mut word = [0u64];
                        let from = (&mut word[..], Some(other(&world)), Some(tag));
                        world.sendrecv((&[round], other(&world), tag), from).unwrap();
                        assert_eq!(word, [round]);
                    }
                })
            };
            let fibers: Vec<_> = (0..50).map(fiber).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            own.free().unwrap();
        });
        nothing_is_left(&mpi);
        mpi.finalize().unwrap();
    };
    let (name, level) = ("levels::serialized_calls_are_made_one_at_a_time", [(LEVEL, SERIALIZED)]);
    let Some(launched) = launch(name, 2, &level, body) else { return };
    assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
}

#[test]
fn another_version_of_the_library_is_refused_in_one_line() {
    let body = || {
        let error = daiko_mpi::init().unwrap_err();
        let InitError::Version { built, loaded } = &error else { panic!("{error:?}") };
        assert!(loaded == "Another MPI 7" && built.contains("MPI"), "{error:?}");
        assert_eq!(error.to_string().lines().count(), 1);
    };
    let name = "levels::another_version_of_the_library_is_refused_in_one_line";
    let Some(launched) = launch(name, 1, &[(VERSION, "Another MPI 7")], body) else { return };
    assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
}
