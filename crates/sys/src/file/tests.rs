use super::memfd::unsealed;
use super::*;
use crate::memory::page_size;
use crate::testing::{LinuxPart, in_fork};
use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::thread;

use crate::atomic::{AtomicUsize, Ordering::Relaxed};

/// A directory of one test. Removed with its contents on drop.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("daiko-file-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = Path::new("/dev/shm").join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, FileError>) -> Reason {
    let error = result.unwrap_err();
    let message = error.to_string();
    assert!(!message.contains('\n') && message.contains(':'), "{message}");
    error.reason()
}

fn is_root() -> bool {
    // SAFETY: `geteuid` takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_name_without_a_slash_lies_in_dev_shm() {
    assert_eq!(resolve(Path::new("x")).unwrap(), Path::new("/dev/shm/x"));
    assert_eq!(resolve(Path::new("/x/y")).unwrap(), Path::new("/x/y"));
    assert!(resolve(Path::new("./x")).unwrap().is_absolute());
    for bad in ["", ".", "..", "/", "x/", "/x/..", "x\0y"] {
        assert_eq!(refused(SharedFile::create(bad, 1)), Reason::BadName, "{bad:?}");
        assert_eq!(refused(SharedFile::open(bad)), Reason::BadName, "{bad:?}");
    }
    let long = "x".repeat(256);
    assert_eq!(refused(SharedFile::create(&long, 1)), Reason::BadName);
    assert_eq!(refused(SharedFile::memfd(&long, 1)), Reason::BadName);
}

#[test]
fn files_are_private_and_allocated_with_any_umask() {
    let directory = Directory::new();
    in_fork(|| {
        for umask in [0, 0o777] {
            // SAFETY: `umask` takes a plain integer; this process has one thread.
            unsafe { libc::umask(umask) };
            let path = directory.file(&umask.to_string());
            let file = SharedFile::create(&path, page_size() + 1).unwrap();
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
            assert_eq!((file.size(), metadata.len()), (2 * page_size(), 2 * page_size() as u64));
            assert!(metadata.blocks() * 512 >= metadata.len());
        }
    });
}

#[test]
fn one_of_many_creators_wins_and_no_half_file_is_seen() {
    let directory = Directory::new();
    let path = directory.file("contended");
    let create = |byte| {
        let draft = SharedFile::draft(&path, 4 * page_size())?;
        let mapping = draft.map(Populate::OnUse)?;
        // SAFETY: a draft has no other mapping.
        unsafe { mapping.start().write_bytes(byte, mapping.len()) };
        draft.publish()
    };
    let seen = |file: SharedFile| {
        let mapping = file.map(Populate::OnUse).unwrap();
        assert_eq!(mapping.len(), 4 * page_size());
        // SAFETY: no process writes once the file has its name.
        unsafe { std::slice::from_raw_parts(mapping.start().as_ptr(), mapping.len()).to_vec() }
    };
    let (winners, bytes) = thread::scope(|s| {
        let creators: Vec<_> = (1..=4).map(|byte| s.spawn(move || create(byte).is_ok())).collect();
        let file = loop {
            match SharedFile::open(&path) {
                Ok(file) => break file,
                Err(error) => assert_eq!(error.reason(), Reason::Missing),
            }
        };
        let bytes = seen(file);
        (creators.into_iter().map(|c| usize::from(c.join().unwrap())).sum::<usize>(), bytes)
    });
    assert_eq!(winners, 1);
    assert!(bytes[0] != 0 && bytes.iter().all(|&byte| byte == bytes[0]));
}

#[test]
fn a_second_draft_is_refused() {
    let directory = Directory::new();
    let path = directory.file("x");
    let [first, second] = [(); 2].map(|()| SharedFile::draft(&path, 1).unwrap());
    assert!(directory.is_empty(), "a draft has no name");
    let mut file = first.publish().unwrap();
    assert_eq!(refused(second.publish()), Reason::Taken);
    assert_eq!(refused(SharedFile::draft(&path, 1)), Reason::Taken);
    assert!(file.lock().unwrap().remove().unwrap());
    assert!(directory.is_empty());
}

#[test]
fn files_of_other_users_and_kinds_are_refused() {
    let directory = Directory::new();
    let file = SharedFile::create(directory.file("file"), 1).unwrap();
    std::os::unix::fs::symlink(file.path(), directory.file("link")).unwrap();
    let _socket = UnixListener::bind(directory.file("socket")).unwrap();
    let pipe = std::ffi::CString::new(directory.file("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is live and ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    for (name, kind) in [
        ("link", "a symbolic link"),
        ("socket", "a socket"),
        ("pipe", "a pipe"),
        (".", "a directory"),
    ] {
        let path = if name == "." { directory.0.clone() } else { directory.file(name) };
        assert_eq!(refused(SharedFile::open(path)), Reason::NotAFile { kind });
    }
    assert_eq!(refused(SharedFile::open("/dev/null")), Reason::NotAFile { kind: "a device" });
    assert_eq!(refused(SharedFile::open(directory.file("none"))), Reason::Missing);
    assert_eq!(refused(SharedFile::create(directory.file("no/x"), 1)), Reason::NoDirectory);
    assert_eq!(refused(SharedFile::create(directory.file("file/x"), 1)), Reason::NoDirectory);
    fs::write(directory.file("empty"), "").unwrap();
    assert_eq!(refused(SharedFile::open(directory.file("empty"))), Reason::Empty);
}

/// Refused to root as well, although the kernel would let root open it.
#[test]
fn a_file_of_another_user_is_refused_by_name_of_the_user() {
    let directory = Directory::new();
    let path = if is_root() {
        let file = SharedFile::create(directory.file("theirs"), 1).unwrap();
        std::os::unix::fs::chown(file.path(), Some(12345), None).unwrap();
        file.path().to_owned()
    } else {
        PathBuf::from("/etc/passwd")
    };
    let owner = Some(fs::metadata(&path).unwrap().uid());
    assert_eq!(refused(SharedFile::open(&path)), Reason::Denied { owner });
}

/// The mode of a file, with its list of named users and groups as `getfacl` orders them.
fn granted(file: &SharedFile) -> (u32, Vec<Grantee>) {
    let mode = file.file.metadata().unwrap().permissions().mode() & 0o7777;
    (mode, permitted::grantees(&file.file).unwrap())
}

/// Returns true if a list can be set on files of the test's directory.
fn has_lists(directory: &Directory) -> bool {
    let draft =
        SharedFile::draft_for(&Permitted::default().user(12345), directory.file("lists"), 1);
    if let Err(error) = &draft {
        assert_eq!(error.reason(), Reason::NoList);
        println!("skipped: the file system of /dev/shm has no access-control lists");
    }
    draft.is_ok()
}

#[test]
fn access_is_granted_to_the_permitted_with_any_umask_and_no_others() {
    let directory = Directory::new();
    if !has_lists(&directory) {
        return;
    }
    // SAFETY: `getegid` takes nothing and cannot fail.
    let own = unsafe { libc::getegid() };
    let (user, group) = (Grantee::User, Grantee::Group);
    let none = Permitted::default;
    let cases = [
        (none(), 0o600, vec![]),
        (none().group(own), 0o660, vec![group(own)]),
        (none().everyone(), 0o666, vec![group(own), Grantee::Everyone]),
        (none().everyone().user(12345), 0o666, vec![group(own), Grantee::Everyone]),
        // The mode shows the mask as the permissions of the group.
        (none().user(12345).user(7), 0o660, vec![user(7), user(12345)]),
        (none().user(7).group(own), 0o660, vec![user(7), group(own)]),
    ];
    in_fork(|| {
        for umask in [0, 0o777] {
            // SAFETY: `umask` takes a plain integer; this process has one thread.
            unsafe { libc::umask(umask) };
            for (at, (permitted, mode, expected)) in cases.iter().enumerate() {
                let path = directory.file(&format!("{umask}-{at}"));
                let file = SharedFile::draft_for(permitted, &path, 1).unwrap().publish().unwrap();
                assert_eq!(granted(&file), (*mode, expected.clone()), "{permitted:?}");
                SharedFile::open_for(permitted, &path).unwrap();
                let memfd = SharedFile::memfd_for(permitted, "x", 1).unwrap();
                assert_eq!(granted(&memfd), (*mode, expected.clone()), "{permitted:?}");
                SharedFile::from_memfd_for(permitted, memfd.as_fd().try_clone_to_owned().unwrap())
                    .unwrap();
            }
        }
    });
}

#[test]
fn groups_that_a_file_cannot_have_are_on_its_list() {
    let directory = Directory::new();
    if !has_lists(&directory) {
        return;
    }
    let permitted = Permitted::default().group(4001).group(4002);
    in_fork(|| {
        if is_root() {
            // SAFETY: takes plain integers; this process has one thread.
            unsafe {
                assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            }
            fs::set_permissions(&directory.0, Permissions::from_mode(0o777)).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
        }
        let file =
            SharedFile::draft_for(&permitted, directory.file("x"), 1).unwrap().publish().unwrap();
        assert_eq!(granted(&file), (0o660, vec![Grantee::Group(4001), Grantee::Group(4002)]));
    });
}

/// The default list of a directory grants access to all its new files.
#[test]
fn a_list_of_the_directory_grants_nothing() {
    let directory = Directory::new();
    if !has_lists(&directory) {
        return;
    }
    let entry = |tag: u16, id: u32| {
        [tag.to_le_bytes(), 6u16.to_le_bytes()].concat().into_iter().chain(id.to_le_bytes())
    };
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, id) in [(1, u32::MAX), (2, 4000), (4, u32::MAX), (0x10, u32::MAX), (0x20, u32::MAX)] {
        list.extend(entry(tag, id));
    }
    let path = std::ffi::CString::new(directory.0.as_os_str().as_bytes()).unwrap();
    let name = c"system.posix_acl_default".as_ptr();
    // SAFETY: the path, the name and the list are live.
    let set = unsafe { libc::setxattr(path.as_ptr(), name, list.as_ptr().cast(), list.len(), 0) };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
    // SAFETY: `getegid` takes nothing and cannot fail.
    let own = unsafe { libc::getegid() };
    for (name, permitted, expected) in [
        ("none", Permitted::default(), vec![]),
        ("group", Permitted::default().group(own), vec![Grantee::Group(own)]),
    ] {
        let file =
            SharedFile::draft_for(&permitted, directory.file(name), 1).unwrap().publish().unwrap();
        assert_eq!(granted(&file).1, expected);
    }
}

#[test]
fn a_file_that_others_may_use_is_refused_by_their_name() {
    let directory = Directory::new();
    let path = directory.file("x");
    let file = SharedFile::create(&path, 1).unwrap();
    let gid = fs::metadata(&path).unwrap().gid();
    for (mode, to) in [
        (0o660, Grantee::Group(gid)),
        (0o640, Grantee::Group(gid)),
        (0o610, Grantee::Group(gid)),
        (0o602, Grantee::Everyone),
        (0o604, Grantee::Everyone),
    ] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(refused(SharedFile::open(&path)), Reason::Exposed { to }, "{mode:o}");
        assert_eq!(
            refused(SharedFile::open_for(&Permitted::default().user(7), &path)),
            Reason::Exposed { to }
        );
        assert!(SharedFile::open_for(&Permitted::default().everyone(), &path).is_ok());
        let group = SharedFile::open_for(&Permitted::default().group(gid), &path);
        assert_eq!(group.is_ok(), to == Grantee::Group(gid));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert!(SharedFile::open(&path).is_ok());
    if has_lists(&directory) {
        Permitted::default().user(7).grant(&file.file, &path).unwrap();
        let to = Grantee::User(7);
        assert_eq!(refused(SharedFile::open(&path)), Reason::Exposed { to });
        assert_eq!(
            refused(SharedFile::open_for(&Permitted::default().group(gid), &path)),
            Reason::Exposed { to }
        );
        assert!(SharedFile::open_for(&Permitted::default().user(7), &path).is_ok());
    }
    for permitted in [Permitted::default().user(u32::MAX), Permitted::default().group(u32::MAX)] {
        assert_eq!(
            refused(SharedFile::draft_for(&permitted, directory.file("id"), 1)),
            Reason::BadId
        );
    }
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    let directory = Directory::new();
    let file = SharedFile::create(directory.file("x"), 1).unwrap();
    fs::hard_link(file.path(), directory.file("y")).unwrap();
    for name in ["x", "y"] {
        assert_eq!(refused(SharedFile::open(directory.file(name))), Reason::Linked);
    }
    fs::remove_file(directory.file("y")).unwrap();
    assert!(SharedFile::open(file.path()).is_ok());
}

#[test]
fn a_directory_that_grants_nothing_is_permission_denied() {
    let directory = Directory::new();
    fs::set_permissions(&directory.0, Permissions::from_mode(0o500)).unwrap();
    in_fork(|| {
        if is_root() {
            // SAFETY: takes plain integers; this process has one thread.
            assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
        }
        let path = directory.file("x");
        assert_eq!(refused(SharedFile::create(path, 1)), Reason::Denied { owner: None });
    });
}

#[test]
fn more_than_there_is_room_for_is_an_error() {
    let directory = Directory::new();
    let path = directory.file("x");
    for bytes in [1 << 50, isize::MAX as usize, usize::MAX] {
        assert_eq!(refused(SharedFile::create(&path, bytes)), Reason::Full { bytes });
        assert_eq!(refused(SharedFile::memfd("x", bytes)), Reason::Full { bytes });
    }
    in_fork(|| {
        let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
        // SAFETY: the limit is a live local.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        let bytes = 1 << 20;
        assert_eq!(refused(SharedFile::create(&path, bytes)), Reason::SizeLimit { bytes });
    });
    assert!(directory.is_empty());
}

/// Mounts a tmpfs of `kib` KiB at `at`, in a process of one thread. Returns false if refused.
fn mount_small(at: &Path, kib: usize) -> bool {
    let flags = libc::CLONE_NEWNS | if is_root() { 0 } else { libc::CLONE_NEWUSER };
    let at = std::ffi::CString::new(at.as_os_str().as_bytes()).unwrap();
    let options = std::ffi::CString::new(format!("size={kib}k")).unwrap();
    // SAFETY: all texts are live and end in a zero byte, and this process has one thread.
    unsafe {
        let root = c"/".as_ptr();
        let private = libc::MS_REC | libc::MS_PRIVATE;
        libc::unshare(flags) == 0
            && libc::mount(root, root, root, private, std::ptr::null()) == 0
            && libc::mount(root, at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

#[test]
fn a_full_tmpfs_is_an_error_at_creation() {
    let directory = Directory::new();
    in_fork(|| {
        if !mount_small(&directory.0, 1024) {
            println!("skipped: mounting a tmpfs is refused here");
            return;
        }
        let (path, kib) = (directory.file("x"), 1024);
        let bytes = 2048 * kib;
        assert_eq!(refused(SharedFile::create(&path, bytes)), Reason::Full { bytes });
        let _half = SharedFile::create(&path, 600 * kib).unwrap();
        let bytes = 600 * kib;
        assert_eq!(refused(SharedFile::create(directory.file("y"), bytes)), Reason::Full { bytes });
    });
}

#[test]
fn a_mapping_is_shared_and_may_be_populated() {
    if LinuxPart::Populate.is_lacking() {
        return;
    }
    let directory = Directory::new();
    let file = SharedFile::create(directory.file("x"), 4 * page_size()).unwrap();
    let populated = file.map(Populate::Now).unwrap();
    let other = SharedFile::open(file.path()).unwrap().map(Populate::OnUse).unwrap();
    assert_ne!(populated.start(), other.start());
    let mut resident = [0; 4];
    // SAFETY: the mapping is live, and has one entry of the array for each page.
    unsafe {
        libc::mincore(populated.start().as_ptr().cast(), populated.len(), resident.as_mut_ptr());
        other.start().add(page_size()).write(9);
        assert_eq!(populated.start().add(page_size()).read(), 9);
    }
    assert!(resident.iter().all(|&page| page & 1 == 1));
}

#[test]
fn a_memfd_keeps_its_size_for_all_processes() {
    let file = SharedFile::memfd("sealed", 3 * page_size()).unwrap();
    assert!(!file.has_its_name().unwrap());
    for size in [0, 4096 * 1024] {
        assert!(file.file.set_len(size).is_err());
    }
    // SAFETY: this command takes one plain integer.
    let more = unsafe { libc::fcntl(file.file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
    assert_eq!(more, -1, "it cannot be sealed against writing");
    let received = SharedFile::from_memfd(file.as_fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(received.size(), 3 * page_size());
    received.map(Populate::Now).unwrap();
}

#[test]
fn descriptors_without_the_seals_are_refused() {
    let memfd = unsealed("loose").unwrap();
    let file = File::from(memfd.try_clone().unwrap());
    assert_eq!(refused(SharedFile::from_memfd(memfd)), Reason::Empty);
    file.set_len(4096).unwrap();
    let again = OwnedFd::from(file.try_clone().unwrap());
    assert_eq!(refused(SharedFile::from_memfd(again)), Reason::Unsealed);
    // SAFETY: this command takes one plain integer.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_GROW) };
    assert_eq!(refused(SharedFile::from_memfd(OwnedFd::from(file))), Reason::Unsealed);
    let directory = Directory::new();
    let named = SharedFile::create(directory.file("x"), 1).unwrap();
    let named = OwnedFd::from(named.file);
    assert_eq!(refused(SharedFile::from_memfd(named)), Reason::Unsealed);
    let pipe = OwnedFd::from(std::io::pipe().unwrap().0);
    assert_eq!(refused(SharedFile::from_memfd(pipe)), Reason::NotAFile { kind: "a pipe" });
}

#[test]
fn a_lock_dies_with_its_holder() {
    let directory = Directory::new();
    let mut file = SharedFile::create(directory.file("x"), 1).unwrap();
    let (mut told, tell) = std::io::pipe().unwrap();
    let holder = crate::testing::forked(|| {
        let mut mine = SharedFile::open(file.path()).unwrap();
        let _lock = mine.lock().unwrap();
        std::io::Write::write_all(&mut { tell }, b"x").unwrap();
        loop {
            thread::park();
        }
    });
    std::io::Read::read_exact(&mut told, &mut [0]).unwrap();
    assert!(file.try_lock().unwrap().is_none());
    // SAFETY: the child is this test's own and not reaped yet.
    unsafe { libc::kill(holder, libc::SIGKILL) };
    crate::testing::reap(holder);
    drop(file.lock().unwrap());
    assert!(file.try_lock().unwrap().is_some(), "dropped, a lock is free");
}

/// Each thread removes the file it found stale and creates a successor. No successor may be
/// removed.
#[test]
fn a_stale_file_is_taken_over_once() {
    let directory = Directory::new();
    let path = directory.file("x");
    drop(SharedFile::create(&path, 1).unwrap());
    let take_over = || {
        loop {
            let Ok(mut stale) = SharedFile::open(&path) else { continue };
            let lock = stale.lock().unwrap();
            if !lock.has_its_name().unwrap() {
                continue;
            }
            if lock.size() > page_size() {
                return false;
            }
            assert!(lock.remove().unwrap());
            SharedFile::create(&path, 2 * page_size()).unwrap();
            return true;
        }
    };
    let takers = thread::scope(|s| {
        let takers = [(); 4].map(|()| s.spawn(take_over));
        takers.map(|taker| usize::from(taker.join().unwrap())).iter().sum::<usize>()
    });
    assert_eq!(takers, 1);
}

#[test]
fn a_successor_of_the_same_name_is_not_removed() {
    let directory = Directory::new();
    let path = directory.file("x");
    let mut old = SharedFile::create(&path, 1).unwrap();
    fs::rename(&path, directory.file("elsewhere")).unwrap();
    assert!(!old.has_its_name().unwrap() && !old.lock().unwrap().remove().unwrap());
    let successor = SharedFile::create(&path, 1).unwrap();
    assert!(!old.lock().unwrap().remove().unwrap());
    assert!(successor.has_its_name().unwrap());
}
