//! Disks of programs: small, full, or failing.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::{env, io, ptr};

use super::{child, seccomp, skip};

/// Limits the files that the program may write to so many bytes.
pub(crate) fn limited(mut command: Command, bytes: u64) -> Command {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the closure calls async-signal-safe functions on plain integers and a copied struct.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    command
}

/// Ends the limit of a program on the files that it writes.
pub(crate) fn unlimited(pid: u32) {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is a live local, and no old one is asked for.
    let set = unsafe { libc::prlimit(pid as i32, libc::RLIMIT_FSIZE, &limit, ptr::null_mut()) };
    assert_eq!(set, 0);
}

const FOLDER: &str = "DAIKO_TEST_SMALL_TMPFS";

/// Runs `body` with the path of a folder on a tmpfs of 1 MiB, in a child process, if one can be
/// mounted. `test` is the name of the calling test.
pub(crate) fn on_small_tmpfs(test: &str, body: fn(&Path)) {
    if child::is_child() {
        body(Path::new(&env::var_os(FOLDER).unwrap()));
        process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = child::command(test);
    in_small_tmpfs(command.env(FOLDER, folder.path()), folder.path());
    match command.output() {
        Ok(output) => assert!(output.status.success(), "{}", child::stderr(&output)),
        Err(error) => skip(&format!("no tmpfs can be mounted: {error}; allow user namespaces")),
    }
}

/// Makes the command start in namespaces with a tmpfs of 1 MiB at `at`.
fn in_small_tmpfs(command: &mut Command, at: &Path) {
    let at = CString::new(at.as_os_str().as_bytes()).unwrap();
    // SAFETY: both take nothing.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", CString::new("deny").unwrap()),
        (c"/proc/self/uid_map", CString::new(format!("{user} {user} 1")).unwrap()),
        (c"/proc/self/gid_map", CString::new(format!("{group} {group} 1")).unwrap()),
    ];
    let checked = |result| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: the closure makes system calls on live strings only.
    unsafe {
        command.pre_exec(move || {
            if user == 0 {
                checked(libc::unshare(libc::CLONE_NEWNS))?;
            } else {
                checked(libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUSER))?;
                for (file, text) in &maps {
                    let fd = libc::open(file.as_ptr(), libc::O_WRONLY);
                    let bytes = text.as_bytes();
                    checked(libc::write(fd, bytes.as_ptr().cast(), bytes.len()) as i32)?;
                    libc::close(fd);
                }
            }
            let root = c"/".as_ptr();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            checked(libc::mount(root, root, root, private, ptr::null()))?;
            let (tmpfs, size) = (c"tmpfs".as_ptr(), c"size=1m".as_ptr());
            checked(libc::mount(tmpfs, at.as_ptr(), tmpfs, 0, size.cast()))
        });
    }
}

/// Makes `fdatasync` of the program fail, as on a device that has failed.
pub(crate) fn without_fdatasync(mut command: Command) -> Command {
    // SAFETY: the closure makes system calls, on locals only.
    unsafe {
        command.pre_exec(|| {
            seccomp::forbid(libc::SYS_fdatasync, libc::EIO);
            // A filter does not see the calls that a ring makes.
            seccomp::forbid(libc::SYS_io_uring_setup, libc::EPERM);
            Ok(())
        });
    }
    command.stderr(Stdio::null());
    command
}
