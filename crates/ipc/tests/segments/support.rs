//! Helpers of these tests.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use daiko_core::robust::Holder;
use daiko_ipc::{MIN_BYTES, Object, ObjectSpec, Segment, SegmentError};

use crate::child::{Killed, command};
use crate::segments::{FOLDER, segment_name};

/// Names the segment for a child.
const SEGMENT: &str = "DAIKO_TEST_SEGMENT";
/// Time after which an expected event counts as lost.
const LOST: Duration = Duration::from_secs(60);

/// A path for one segment. Its file is removed at the end.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Place {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        Place(Path::new(FOLDER).join(segment_name(number)))
    }

    pub(crate) fn at(path: PathBuf) -> Place {
        Place(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn create(&self) -> Segment {
        Segment::create(&self.0, MIN_BYTES).unwrap()
    }

    pub(crate) fn open(&self) -> Result<Segment, SegmentError> {
        Segment::open(&self.0)
    }

    /// The file of the segment.
    pub(crate) fn file(&self) -> fs::File {
        fs::File::options().read(true).write(true).open(&self.0).unwrap()
    }

    pub(crate) fn command(&self, test: &str) -> Command {
        let mut command = command(test);
        command.env(SEGMENT, &self.0).stdout(Stdio::null());
        command
    }

    /// Runs this test in a child, which finds the segment by [`theirs`].
    pub(crate) fn child(&self, test: &str) -> Killed {
        Killed(self.command(test).spawn().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The segment of the parent. Called in a child.
pub(crate) fn theirs() -> PathBuf {
    std::env::var_os(SEGMENT).unwrap().into()
}

/// Does nothing until it is killed. Called in a child.
pub(crate) fn rest() -> ! {
    loop {
        std::thread::park();
    }
}

#[track_caller]
pub(crate) fn until(expected: &str, mut come: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !come() {
        assert!(begun.elapsed() < LOST, "never came: {expected}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The error of a refusal, which is one line with this remedy.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T, SegmentError>, remedy: &str) -> SegmentError {
    let Err(error) = result else { panic!("not refused: {remedy}") };
    assert_names(&error, remedy);
    error
}

#[track_caller]
pub(crate) fn assert_names(error: &impl Display, remedy: &str) {
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(remedy), "{text:?} does not name {remedy:?}");
}

/// An object that consists of words.
pub(crate) fn words(words: usize) -> ObjectSpec {
    ObjectSpec { kind: 77, bytes: 8 * words, agreed: 0, chosen: [0; 4] }
}

/// Makes an object: [`Segment::make_object`].
pub(crate) fn make_object(
    segment: &Segment,
    name: &str,
    spec: ObjectSpec,
    init: impl FnOnce(&Object),
) -> Result<Object, SegmentError> {
    // SAFETY: a test accesses an object either as words of 64 bits or as bytes.
    unsafe { segment.make_object(name, spec, init) }
}

/// Finds an object: [`Segment::object`].
pub(crate) fn object(
    segment: &Segment,
    name: &str,
    is: &'static str,
    fits: impl Fn(&ObjectSpec) -> Result<(), &'static str>,
) -> Result<Object, SegmentError> {
    // SAFETY: as above.
    unsafe { segment.object(name, is, fits) }
}

/// The words shared by all processes of a segment.
pub(crate) fn shared_words(segment: &Segment, count: usize) -> Object {
    match make_object(segment, "words", words(count), |_| ()) {
        Err(SegmentError::ObjectTaken { .. }) => {
            object(segment, "words", "words", |_| Ok(())).unwrap()
        }
        made => made.unwrap(),
    }
}

pub(crate) fn word(words: &Object, at: usize) -> &AtomicU64 {
    words.at(8 * at)
}

/// Attaches and stores its holder in the first free word. Called in a child.
pub(crate) fn sign_in(count: usize) -> Segment {
    let segment = Segment::open(theirs()).unwrap();
    let words = shared_words(&segment, count);
    let me = segment.me().bits();
    let taken = (0..count).any(|at| {
        let (came, failed) = (Ordering::SeqCst, Ordering::SeqCst);
        word(&words, at).compare_exchange(0, me, came, failed).is_ok()
    });
    assert!(taken);
    segment
}

/// A segment to which another process is attached as well, until it is killed.
pub(crate) struct Pair {
    pub(crate) place: Place,
    pub(crate) segment: Segment,
    pub(crate) child: Killed,
    /// The attachment of the other process.
    pub(crate) other: Holder,
}

impl Pair {
    /// Starts the other process. `test` must call this first: the other process runs it and never
    /// returns from here.
    pub(crate) fn of(test: &str) -> Pair {
        if std::env::var_os(SEGMENT).is_some() {
            let _segment = sign_in(1);
            rest();
        }
        let place = Place::new();
        let segment = place.create();
        let child = place.child(test);
        let other = signed_in(&shared_words(&segment, 1), 0);
        Pair { place, segment, child, other }
    }
}

/// The process that signed in as number `at`, once it has.
pub(crate) fn signed_in(words: &Object, at: usize) -> Holder {
    until("a child", || word(words, at).load(Ordering::SeqCst) != 0);
    Holder::of(word(words, at).load(Ordering::SeqCst)).unwrap()
}

/// Runs `body` in a forked process.
pub(crate) fn forked(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: glibc makes its allocator usable in the child, which leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(done.is_err().into()) };
    }
    assert_ne!(child, -1, "no process");
    child
}

/// Runs `body` in a forked process and asserts that it succeeds.
#[track_caller]
pub(crate) fn in_fork(body: impl FnOnce()) {
    let (child, mut status) = (forked(body), -1);
    // SAFETY: the status is a live local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed: see its message");
}
