//! Killed processes, and processes with an unknown state.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use daiko_core::doorbell::Doorbell;
use daiko_ipc::{MAX_DOORBELLS, Segment, SegmentError};
use daiko_sys::futex;
use daiko_sys::process::Doubt;

use crate::child::{in_child_well, is_child};
use crate::support::{
    Pair, Place, forked, in_fork, refused, rest, shared_words, sign_in, signed_in, theirs, until,
};

/// Sleeps until the ring, as a waiter in a segment does.
fn sleep_on(bell: &Doorbell) {
    while bell.is_parked() {
        let _ = futex::wait(bell.word(), Doorbell::PARKED, None, futex::Scope::Shared);
    }
}

#[test]
fn a_death_is_noticed_and_sleepers_look_again() {
    let pair = Pair::of("deaths::a_death_is_noticed_and_sleepers_look_again");
    let Pair { segment, child, other, .. } = pair;
    segment.watch(other);
    let bell = segment.doorbell().unwrap();
    bell.doorbell().park();
    std::thread::scope(|s| {
        let sleeper = s.spawn(|| sleep_on(bell.doorbell()));
        assert!(!segment.is_gone(other) && bell.doorbell().is_parked());
        drop(child);
        sleeper.join().unwrap();
    });
    assert!(segment.is_gone(other));
    assert_eq!(segment.attached(), [std::process::id()]);
}

/// A process that is checked only after its death is found dead at once.
#[test]
fn an_unwatched_death_is_found() {
    let pair = Pair::of("deaths::an_unwatched_death_is_found");
    let Pair { segment, child, other, .. } = pair;
    drop(child);
    assert!(!segment.is_gone(other));
    segment.watch(other);
    assert!(segment.is_gone(other));
}

#[test]
fn many_deaths_are_noticed_also_in_several_segments() {
    const NAME: &str = "deaths::many_deaths_are_noticed_also_in_several_segments";
    const MANY: usize = 30;
    if is_child() {
        let _segment = sign_in(MANY + 1);
        rest();
    }
    let place = Place::new();
    let segments = [(); 3].map(|()| place.open().unwrap_or_else(|_| place.create()));
    let mut children: Vec<_> = (0..MANY).map(|_| place.child(NAME)).collect();
    let words = shared_words(&segments[0], MANY + 1);
    let others: Vec<_> = (0..MANY).map(|at| signed_in(&words, at)).collect();
    segments.iter().for_each(Segment::watch_all);
    let bells = segments.each_ref().map(|segment| segment.doorbell().unwrap());
    children.iter_mut().for_each(|child| child.0.kill().unwrap());
    for other in others {
        until("a death", || segments.iter().all(|segment| segment.is_gone(other)));
    }
    assert_eq!(segments[0].attached().len(), segments.len());
    // Each attachment of a process rings for its own sleepers; the last ring may follow the last
    // mark.
    bells.iter().for_each(|bell| bell.doorbell().park());
    let last = place.child(NAME);
    signed_in(&words, MANY);
    segments.iter().for_each(Segment::watch_all);
    drop(last);
    until("rings", || bells.iter().all(|bell| !bell.doorbell().is_parked()));
}

#[test]
fn doorbells_of_the_dead_are_taken() {
    const NAME: &str = "deaths::doorbells_of_the_dead_are_taken";
    if is_child() {
        let segment = Segment::open(theirs()).unwrap();
        let bells: Vec<_> = (1..MAX_DOORBELLS).map(|_| segment.doorbell().unwrap()).collect();
        shared_words(&segment, 1)
            .at::<std::sync::atomic::AtomicU64>(0)
            .store(segment.me().bits(), Ordering::SeqCst);
        assert_eq!(bells.len(), MAX_DOORBELLS - 1);
        rest();
    }
    let place = Place::new();
    let segment = place.create();
    let mine = segment.doorbell().unwrap();
    let child = place.child(NAME);
    let dead = signed_in(&shared_words(&segment, 1), 0);
    let error = refused(segment.doorbell(), "use fewer workers");
    assert!(matches!(error, SegmentError::Full { .. }));
    drop(child);
    until("the doorbells", || segment.doorbell().is_ok());
    assert!(segment.is_gone(dead));
    let bells: Vec<_> = (1..MAX_DOORBELLS).map(|_| segment.doorbell().unwrap()).collect();
    assert!(bells.iter().all(|bell| bell.number() != mine.number()));
}

/// Makes the children of this process the first of a PID namespace. Returns false if refused.
fn leave_pid_namespace() -> bool {
    // SAFETY: both take plain integers or nothing; this process has one thread.
    unsafe {
        let user = if libc::geteuid() == 0 { 0 } else { libc::CLONE_NEWUSER };
        libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS | user) == 0
    }
}

/// Mounts the namespace's own `/proc`. Returns false if refused.
fn mount_proc(options: &CStr) -> bool {
    let (root, proc) = (c"/".as_ptr(), c"proc".as_ptr());
    // SAFETY: all texts are live and end in a zero byte.
    unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        libc::mount(root, root, root, private, std::ptr::null()) == 0
            && libc::mount(proc, c"/proc".as_ptr(), proc, 0, options.as_ptr().cast()) == 0
    }
}

/// Drops the capabilities that let root see all processes.
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = (Header { version: VERSION_3, pid: 0 }, [0u32; 6]);
    // SAFETY: both are live and have the sizes of this version.
    assert_eq!(unsafe { libc::syscall(libc::SYS_capset, &header, &none) }, 0);
}

/// Runs `body` as the first process of a PID namespace with a `/proc` of its own, mounted with
/// these options, if that is allowed.
fn in_pid_namespace(options: &CStr, body: impl FnOnce()) {
    in_fork(|| match leave_pid_namespace() {
        true => in_fork(|| match mount_proc(options) {
            true => body(),
            false => println!("skipped: mounting /proc with {options:?} is refused here"),
        }),
        false => println!("skipped: PID namespaces are refused here"),
    });
}

#[test]
fn a_process_of_another_pid_namespace_is_refused_by_name() {
    in_child_well("deaths::a_process_of_another_pid_namespace_is_refused_by_name", || {
        let place = Place::new();
        let segment = place.create();
        let elsewhere = || {
            let error = refused(place.open(), "mount -t proc proc /proc");
            assert!(matches!(error, SegmentError::Process(_)), "{error}");
            if !mount_proc(c"") {
                println!("skipped: mounting /proc is refused here");
                return;
            }
            let error = refused(place.open(), "run both in one (docker: --pid)");
            assert!(matches!(error, SegmentError::Unwatchable { .. }), "{error}");
            // Processes of one namespace accept each other.
            let own = Place::new();
            drop(own.create());
            drop(own.open().unwrap());
        };
        in_fork(|| match leave_pid_namespace() {
            true => in_fork(elsewhere),
            false => println!("skipped: PID namespaces are refused here"),
        });
        assert_eq!(segment.attached(), [std::process::id()]);
    });
}

/// It cannot be distinguished from a dead process with a reused id.
#[test]
fn a_process_that_proc_hides_is_refused_by_name() {
    in_child_well("deaths::a_process_that_proc_hides_is_refused_by_name", || {
        // Root's group would see all processes.
        in_pid_namespace(c"hidepid=2,gid=1", || {
            let place = Place::new();
            forked(|| {
                // SAFETY: takes plain integers. Makes the process look like a program with more
                // rights than its user.
                unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
                let _segment = place.create();
                rest();
            });
            drop_capabilities();
            let mut denied = None;
            until("a process that is hidden", || {
                denied = place.open().err().filter(|error| !matches!(error, SegmentError::File(_)));
                denied.is_some()
            });
            let error = refused::<()>(Err(denied.unwrap()), "mount it without hidepid");
            let hidden = matches!(error, SegmentError::Unwatchable { doubt: Doubt::Hidden, .. });
            assert!(hidden, "{error}");
        });
    });
}
