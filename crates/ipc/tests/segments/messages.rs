//! The texts of the errors.

use std::path::PathBuf;

use daiko_ipc::{SegmentError as E, Table};
use daiko_sys::process::{Doubt, ProcessError};

use crate::support::assert_names;

#[test]
fn errors_are_one_line_that_names_the_remedy() {
    let path = || PathBuf::from("/dev/shm/two\nlines");
    let name = || "two\nlines".to_string();
    let unwatchable = |doubt| E::Unwatchable { path: path(), pid: 7, doubt };
    for (error, remedy) in [
        (E::Foreign { path: path() }, "choose another name"),
        (E::Version { path: path(), found: 1 }, "build all its programs with one version"),
        (E::Machine { path: path() }, "remove it"),
        (E::Pages { path: path(), found: 64 << 10 }, "remove it"),
        (E::Size { path: path(), says: 1, has: 2 }, "remove it"),
        (E::Truncated { path: path() }, "end all its users, remove it"),
        (E::Smaller { path: path(), asked: 2, has: 1 }, "ask for no more"),
        (E::Inherited { path: path() }, "open it here"),
        (E::TooSmall { bytes: 1 }, "ask for at least"),
        (unwatchable(Doubt::OtherNamespace), "run both in one (docker: --pid)"),
        (unwatchable(Doubt::Hidden), "mount it without hidepid"),
        (unwatchable(Doubt::Blind(ProcessError::Files)), "raise RLIMIT_NOFILE"),
        (E::Locked { path: path() }, "continue it if it is stopped"),
        (E::Process(ProcessError::ForeignProc), "mount -t proc"),
        (E::Full { path: path(), of: Table::Attached }, "256 attached processes: end one"),
        (E::Full { path: path(), of: Table::Doorbells }, "use fewer workers"),
        (E::Full { path: path(), of: Table::Objects }, "another segment"),
        (E::NoRoom { path: path(), bytes: 2, free: 1 }, "create it larger"),
        (E::Impossible { is: "a queue", limits: "1 to 9 places" }, "choose 1 to 9 places"),
        (E::Name { name: name() }, "a name has 1 to"),
        (E::NoObject { name: name() }, "start the program that creates it first"),
        (E::ObjectTaken { name: name() }, "open it instead"),
        (E::Other { name: name(), asked: "a service", differs: "size" }, "or another name"),
    ] {
        assert_names(&error, remedy);
    }
}
