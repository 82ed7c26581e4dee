//! Segments of several users: the work of permitted users, and a stranger's attempts.
//!
//! Root starts children that become other users. `DAIKO_SOAK_KILLS` says how many of them are
//! killed, a few by default.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use daiko::shm::{
    Call, CallError, Cause, Client, Grantee, Mutex, Reason, Segment, SegmentError, SegmentOptions,
    Server, Service, TimedLockError,
};

use crate::hostile;
use crate::kills::{live_in, survive};
use crate::place::{LONG, child_at, rest, role, their_path};
use crate::support::child::emulated;
use crate::support::child::{Killed, is_child};
use crate::support::segments::{FOLDER, segment_name};
use crate::support::{OnDrop, skip, until, workers};

const ROOT: u32 = 0;
/// The users of the segment, besides root.
const USERS: [u32; 2] = [12345, 65534];
const STRANGER: u32 = 4242;
const BYTES: usize = 4 << 20;

fn options() -> SegmentOptions {
    USERS.into_iter().fold(Segment::options().user(ROOT), SegmentOptions::user)
}

/// Returns true, with the reason, if the children of this test cannot be other users.
fn is_skipped() -> bool {
    if emulated::is_skipped("which does not change the user of all threads") {
        return true;
    }
    // Root of a container may have no other users.
    let is_allowed = Command::new("true").uid(USERS[0]).gid(USERS[0]).status().is_ok();
    if !is_allowed {
        skip("processes of other users take root");
    }
    !is_allowed
}

/// Makes this process one of another user and group, as a daemon does it that root has started: the
/// kernel hides its addresses then, even from its own user.
fn become_user(user: u32, group: u32) {
    // SAFETY: take plain integers, or no list.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(group, group, group), 0);
        assert_eq!(libc::setresuid(user, user, user), 0);
    }
}

/// Takes back that the kernel hides a process that has become one of another user.
fn show_addresses() {
    // SAFETY: takes plain integers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) }, 0);
}

/// A path for a segment. Its file is removed at the end.
struct Name(PathBuf);

impl Name {
    fn new(name: impl std::fmt::Display) -> Self {
        Name(Path::new(FOLDER).join(segment_name(name)))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The part of a child: its task, with a number. The child belongs to a user and a group.
struct Part {
    does: String,
    number: u64,
}

impl Part {
    fn start(path: &Path, test: &str, does: &str, [user, group]: [u32; 2], number: u64) -> Killed {
        child_at(path, test, &format!("{does} {user} {group} {number}"))
    }

    /// Becomes the user that the parent has named. Called in a child.
    fn take() -> Self {
        let role = role();
        let mut words = role.split(' ');
        let does = words.next().unwrap().to_owned();
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let (user, group, number) = (number() as u32, number() as u32, number());
        become_user(user, group);
        Part { does, number }
    }
}

/// Has a child of this user create the segment, and opens it.
fn created_by(user: u32, path: &Path, test: &str) -> (Killed, Segment) {
    let creator = Part::start(path, test, "create", [user; 2], 0);
    until("the segment", || options().open(path).is_ok());
    (creator, options().open(path).unwrap())
}

fn create_and_rest() -> ! {
    // The umask would hide the file from the other user.
    // SAFETY: takes a plain integer.
    unsafe { libc::umask(0o777) };
    let segment = options().create(their_path(), BYTES).unwrap();
    rest(&segment, "created")
}

#[track_caller]
fn refused<T>(result: Result<T, SegmentError>) -> Reason {
    let Err(error) = result else { panic!("not refused") };
    let text = error.to_string();
    assert!(text.lines().count() == 1 && text.contains(": "), "{text}");
    let SegmentError::File(error) = error else { panic!("{text}") };
    error.reason()
}

/// Serves doubles, and asks for them, until it is killed. Every call ends.
fn serve_and_ask(segment: &Segment, number: u64) {
    let service = Service::open_or_create(segment, "double", Service::options()).unwrap();
    let double = |call: &mut Call<'_>| {
        // A suspension in the middle, for deaths with a call in hand.
        daiko::yield_now();
        let asked: u64 = call.read().unwrap();
        call.reply(&(2 * asked));
    };
    let _server = Server::builder(&service).shared().serve(double).expect("there are seats");
    let client = Client::of(service);
    let runtime = workers(1);
    runtime.run(move || {
        for i in 0.. {
            let _ = ask(&client, number << 32 | i);
            daiko::yield_now();
        }
    });
}

/// Asks for a double. Fails only with the errors of a server that was killed.
fn ask(client: &Client, number: u64) -> Result<(), CallError> {
    match client.call_timeout(&number, LONG).and_then(|reply| reply.read::<u64>()) {
        Ok(double) => assert_eq!(double, number.wrapping_mul(2)),
        Err(error @ (CallError::ServerDied | CallError::NotServed)) => return Err(error),
        Err(error) => panic!("{error}"),
    }
    Ok(())
}

/// Attempts to use the segment, or to keep it from its users, in all ways, until it is killed.
fn intrude(path: &Path) -> ! {
    show_addresses();
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let own = path.with_extension("link");
    let errno = |done: i32| (done != 0).then(io::Error::last_os_error);
    let users = USERS.into_iter().chain([ROOT, STRANGER]);
    let processes = || -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let all = users.fold(Segment::options(), SegmentOptions::user);
    let links_are_protected = fs::read("/proc/sys/fs/protected_hardlinks").unwrap() != b"0\n";
    loop {
        let denied = |reason| matches!(reason, Reason::Denied { owner: Some(12345) });
        assert!(denied(refused(Segment::open(path))));
        assert!(denied(refused(all.open(path))));
        assert!(denied(refused(all.open_or_create(path, BYTES))));
        assert!(denied(refused(all.clone().everyone().open(path))));
        assert_eq!(refused(all.create(path, BYTES)), Reason::Taken);

        std::os::unix::fs::symlink(path, &own).unwrap();
        assert_eq!(refused(all.open(&own)), Reason::NotAFile { kind: "a symbolic link" });
        fs::remove_file(&own).unwrap();
        // Otherwise the link would stay, as only the owner may remove it.
        if links_are_protected {
            fs::hard_link(path, &own).unwrap_err();
        }

        File::open(path).unwrap_err();
        File::options().write(true).open(path).unwrap_err();
        fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap_err();
        fs::remove_file(path).unwrap_err();
        fs::rename(path, &own).unwrap_err();
        // SAFETY: the paths are live and end in a zero byte; the value has as many bytes.
        unsafe {
            errno(libc::truncate(text.as_ptr(), 0)).expect("refused");
            errno(libc::chown(text.as_ptr(), STRANGER, STRANGER)).expect("refused");
            let (name, value) = (c"system.posix_acl_access".as_ptr(), [2u8, 0, 0, 0]);
            let set = libc::setxattr(text.as_ptr(), name, value.as_ptr().cast(), 4, 0);
            errno(set).expect("refused");
        }
        let me = std::process::id();
        for pid in processes().into_iter().filter(|&pid| pid != me) {
            fs::read_dir(format!("/proc/{pid}/fd")).map(drop).unwrap_err();
            for fd in 3..10 {
                let file = format!("/proc/{pid}/fd/{fd}");
                File::options().read(true).write(true).open(file).unwrap_err();
            }
            File::open(format!("/proc/{pid}/mem")).unwrap_err();
            // SAFETY: takes plain integers: to see if a signal could be sent.
            errno(unsafe { libc::kill(pid as i32, 0) }).expect("refused");
        }
    }
}

/// Two users' processes use all objects and a shared service, and are killed; a third user attempts
/// to get in meanwhile.
#[test]
fn two_users_lose_nothing_and_let_no_third_in() {
    const NAME: &str = "users::two_users_lose_nothing_and_let_no_third_in";
    if is_child() {
        let Part { does, number } = Part::take();
        match does.as_str() {
            "create" => create_and_rest(),
            "intrude" => intrude(&their_path()),
            _ => {}
        }
        if number.is_multiple_of(2) {
            show_addresses();
        }
        let segment = options().open(their_path()).unwrap();
        let served = segment.clone();
        // Its end is the process's.
        thread::spawn(move || {
            let _abort = OnDrop(|| exit(1));
            serve_and_ask(&served, number)
        });
        return live_in(&segment, number);
    }
    if is_skipped() {
        return;
    }
    let kills = std::env::var("DAIKO_SOAK_KILLS").ok().and_then(|text| text.parse().ok());
    let name = Name::new("users");
    let (_creator, segment) = created_by(USERS[0], &name.0, NAME);
    let mut stranger = Part::start(&name.0, NAME, "intrude", [STRANGER; 2], 0);
    let start = |number: u64| {
        let user = USERS[(number / 3) as usize % 2];
        Part::start(&name.0, NAME, "live", [user; 2], number)
    };
    let service = Service::open_or_create(&segment, "double", Service::options()).unwrap();
    let (client, ends) = (Client::of(service), AtomicBool::new(false));
    let (answered, lost) = thread::scope(|s| {
        let asks = s.spawn(|| {
            let (mut answered, mut lost) = (0u64, 0u64);
            while !ends.load(Ordering::Relaxed) {
                match ask(&client, 7) {
                    Ok(()) => answered += 1,
                    Err(CallError::ServerDied) => lost += 1,
                    Err(_) => thread::yield_now(),
                }
            }
            (answered, lost)
        });
        let ends = OnDrop(|| ends.store(true, Ordering::Relaxed));
        let again = options().open(&name.0).unwrap();
        survive(&segment, &again, start, |killed| killed < kills.unwrap_or(30));
        drop(ends);
        asks.join().unwrap()
    });
    println!("{answered} calls were answered, {lost} were in the hands of killed servers");
    assert!(answered > 0);
    assert!(stranger.lives(), "the stranger has got in: see its message");
}

/// The members of a group use the segment of another user, and other users do not.
#[test]
fn the_members_of_a_group_are_let_in() {
    const NAME: &str = "users::the_members_of_a_group_are_let_in";
    const GROUP: u32 = 7001;
    let options = Segment::options().group(GROUP).user(ROOT);
    if is_child() {
        let part = Part::take();
        let opened = options.open(their_path());
        match part.does.as_str() {
            "member" => drop(opened.unwrap()),
            _ => assert_eq!(refused(opened), Reason::Denied { owner: Some(ROOT) }),
        }
        exit(0);
    }
    if is_skipped() {
        return;
    }
    let name = Name::new("group");
    let _segment = options.create(&name.0, BYTES).unwrap();
    Part::start(&name.0, NAME, "member", [USERS[0], GROUP], 0).ends_well();
    Part::start(&name.0, NAME, "stranger", [USERS[0], GROUP + 1], 0).ends_well();
}

/// Any user can be the first to take a name in `/dev/shm`.
#[test]
fn a_segment_that_a_stranger_has_put_in_the_place_is_refused() {
    const NAME: &str = "users::a_segment_that_a_stranger_has_put_in_the_place_is_refused";
    if is_child() {
        let part = Part::take();
        let path = their_path();
        let squatting = match part.does.as_str() {
            "open" => Segment::options().everyone().create(&path, BYTES),
            "listed" => options().create(&path, BYTES),
            _ => {
                let own = path.with_extension("own");
                std::os::unix::fs::symlink(&own, &path).unwrap();
                Segment::options().everyone().create(own, BYTES)
            }
        };
        rest(&squatting.unwrap(), "squatted");
    }
    if is_skipped() {
        return;
    }
    for does in ["open", "listed", "link"] {
        let (name, own) = (Name::new(does), Name::new(format_args!("{does}.own")));
        let _squatter = Part::start(&name.0, NAME, does, [STRANGER; 2], 0);
        let begun = if does == "link" { &own.0 } else { &name.0 };
        let squatter = Segment::options().everyone().user(STRANGER);
        until("the stranger's segment", || {
            squatter.open(begun).is_ok_and(|segment| segment.objects() == ["squatted"])
        });
        let reason = match does {
            "link" => Reason::NotAFile { kind: "a symbolic link" },
            _ => Reason::Denied { owner: Some(STRANGER) },
        };
        for permitted in [Segment::options(), options(), options().everyone()] {
            assert_eq!(refused(permitted.open(&name.0)), reason);
            assert_eq!(refused(permitted.open_or_create(&name.0, BYTES)), reason);
            assert_eq!(refused(permitted.create(&name.0, BYTES)), Reason::Taken);
        }
    }
}

/// Its owner has granted more than the program that opens it knows.
#[test]
fn a_segment_that_was_opened_to_more_users_is_refused() {
    let name = Name::new("widened");
    let segment = Segment::create(&name.0, BYTES).unwrap();
    fs::set_permissions(&name.0, Permissions::from_mode(0o606)).unwrap();
    let to = Grantee::Everyone;
    assert_eq!(refused(Segment::open(&name.0)), Reason::Exposed { to });
    assert_eq!(refused(options().open(&name.0)), Reason::Exposed { to });
    fs::set_permissions(&name.0, Permissions::from_mode(0o600)).unwrap();
    assert!(Segment::open(&name.0).is_ok() && segment.attached().len() == 1);
}

/// Another user's process becomes another program while it holds a lock. The kernel reveals that to
/// no other user.
#[test]
fn a_process_of_another_user_that_becomes_another_program_leaves_its_lock() {
    const NAME: &str =
        "users::a_process_of_another_user_that_becomes_another_program_leaves_its_lock";
    if is_child() {
        let part = Part::take();
        let segment = options().open_or_create(their_path(), BYTES).unwrap();
        let mutex = Mutex::open_or_create(&segment, "mutex", 0u64).unwrap();
        if part.does == "becomes" {
            std::mem::forget(mutex.lock());
            panic!("{}", Command::new("sleep").arg("1000").exec());
        }
        let Err(TimedLockError::Poisoned(error)) = mutex.lock_timeout(LONG) else {
            panic!("the holder is not known to be gone");
        };
        assert_eq!(error.cause(), Cause::OwnerDied);
        exit(0);
    }
    if is_skipped() {
        return;
    }
    let name = Name::new("exec");
    // The first process makes the segment, and is not there any more.
    let created =
        created_by(USERS[1], &name.0, "users::two_users_lose_nothing_and_let_no_third_in");
    drop(created);
    let becomes = Part::start(&name.0, NAME, "becomes", [USERS[0]; 2], 0);
    let comm = format!("/proc/{}/comm", becomes.0.id());
    until("another program", || fs::read_to_string(&comm).is_ok_and(|comm| comm == "sleep\n"));
    // The other user is not root, to which the kernel would reveal the program.
    Part::start(&name.0, NAME, "locks", [USERS[1]; 2], 0).ends_well();
}

/// A permitted user's process writes arbitrary words, and cuts the segment short.
#[test]
fn calls_return_in_time_in_spite_of_any_writes_of_a_permitted_user() {
    const NAME: &str = "users::calls_return_in_time_in_spite_of_any_writes_of_a_permitted_user";
    if is_child() {
        let part = Part::take();
        let segment = options().open(their_path()).unwrap();
        if part.does == "cuts" {
            File::options().write(true).open(their_path()).unwrap().set_len(0).unwrap();
            exit(0);
        }
        hostile::scribble(&segment, &AtomicBool::new(false));
    }
    if is_skipped() {
        return;
    }
    let name = Name::new("permitted");
    let segment = options().create(&name.0, BYTES).unwrap();
    let objects = hostile::objects(&segment);
    let child = Part::start(&name.0, NAME, "writes", [USERS[0]; 2], 0);
    let words = segment.attached().len();
    until("the other user", || segment.attached().len() > words);
    hostile::use_all(&objects);
    workers(1).scope(|fibers| fibers.spawn(|| hostile::use_all(&objects)).join().unwrap());
    drop(child);
    Part::start(&name.0, NAME, "cuts", [USERS[0]; 2], 0).ends_well();
    assert_eq!(objects.0.0.lock().map(drop).unwrap_err().cause(), Cause::Truncated);
    let error = options().open(&name.0).map(drop).unwrap_err();
    assert!(error.to_string().contains("have it created anew"), "{error}");
}
