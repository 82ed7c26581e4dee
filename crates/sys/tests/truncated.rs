//! Truncation of a file below its mapping. Every case runs in a child process.

#[path = "../../../tests/child.rs"]
mod child;

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::ptr;
use std::sync::Barrier;
use std::thread;

use child::{in_child, in_child_well, stderr};
use daiko_sys::file::{Guarded, MOST_GUARDED, Populate, Reason, SharedFile};
use daiko_sys::memory::{Mapping, page_size};
use daiko_sys::signal;

/// A file of `pages` pages, each filled with its number counted from 1. Its name is removed
/// already.
fn filled(pages: usize) -> (SharedFile, File) {
    // SAFETY: takes a plain integer. Ends an access that is repeated without end.
    unsafe { libc::alarm(60) };
    let name = format!("daiko-truncated-{}", std::process::id());
    let file = SharedFile::create(&name, pages * page_size()).unwrap();
    let other = File::options().write(true).open(file.path()).unwrap();
    fs::remove_file(file.path()).unwrap();
    let mapping = file.map(Populate::OnUse).unwrap();
    for page in 0..pages {
        write(&mapping, page, page as u8 + 1);
    }
    (file, other)
}

fn truncate(file: &File, pages: usize) {
    file.set_len((pages * page_size()) as u64).unwrap();
}

fn read(mapping: &Mapping, page: usize) -> u8 {
    // SAFETY: the page is part of the mapping.
    unsafe { mapping.start().add(page * page_size() + 5).read_volatile() }
}

fn write(mapping: &Mapping, page: usize, byte: u8) {
    // SAFETY: the page is part of the mapping.
    unsafe { mapping.start().add(page * page_size() + 5).write_volatile(byte) };
}

fn bytes(mapping: &Guarded) -> Vec<u8> {
    (0..mapping.len() / page_size()).map(|page| read(mapping, page)).collect()
}

#[test]
fn reads_and_writes_go_on_in_a_truncated_file() {
    in_child_well("reads_and_writes_go_on_in_a_truncated_file", || {
        for populate in [Populate::OnUse, Populate::Now] {
            let (file, other) = filled(6);
            let mapping = file.map_guarded(populate).unwrap();
            assert_eq!(bytes(&mapping), [1, 2, 3, 4, 5, 6]);
            truncate(&other, 3);
            assert!(!mapping.is_broken(), "no access has met it yet");
            write(&mapping, 4, 50);
            assert!(mapping.is_broken());
            assert_eq!(read(&mapping, 4), 50, "written bytes stay");
            assert_eq!(bytes(&mapping), [1, 2, 3, 0, 50, 0]);
            write(&mapping, 3, 40);
            truncate(&other, 1);
            assert_eq!(bytes(&mapping), [1, 0, 0, 40, 50, 0], "also when it shrinks further");
        }
    });
}

#[test]
fn the_rest_of_a_truncated_file_stays_shared() {
    in_child_well("the_rest_of_a_truncated_file_stays_shared", || {
        let (file, other) = filled(4);
        let [mapping, second] = [(); 2].map(|()| file.map_guarded(Populate::Now).unwrap());
        truncate(&other, 2);
        assert_eq!(read(&mapping, 2), 0);
        assert!(mapping.is_broken() && !second.is_broken(), "each finds out by itself");
        write(&mapping, 1, 9);
        write(&mapping, 2, 9);
        assert_eq!(bytes(&second), [1, 9, 0, 0]);
        assert!(second.is_broken());
    });
}

/// Every thread counts on a page of its own. A page that is replaced twice loses its count.
#[test]
fn threads_that_meet_the_end_at_once_lose_none_of_their_later_writes() {
    in_child_well("threads_that_meet_the_end_at_once_lose_none_of_their_later_writes", || {
        for _ in 0..200 {
            let (file, other) = filled(8);
            let mapping = file.map_guarded(Populate::Now).unwrap();
            truncate(&other, 0);
            let start = Barrier::new(4);
            thread::scope(|s| {
                for page in [7, 5, 3, 1] {
                    let (mapping, start) = (&mapping, &start);
                    s.spawn(move || {
                        start.wait();
                        for byte in 1..=100 {
                            write(mapping, page, byte);
                            assert_eq!(read(mapping, page), byte);
                        }
                    });
                }
            });
            assert_eq!(bytes(&mapping), [0, 100, 0, 100, 0, 100, 0, 100]);
        }
    });
}

unsafe extern "C" fn leave(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`; ends the process at once.
    unsafe {
        let is_whole = !context.is_null() && !(*info).si_addr().is_null();
        libc::_exit(if is_whole { 80 } else { 1 })
    }
}

/// Handles SIGBUS like a program with a handler of its own, installed before the guarded mapping's.
fn handle_by_leaving() {
    // SAFETY: zero is a valid `sigaction`, and the handler fits its flag.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = leave as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
    }
}

/// Touches a truncated file through a guarded mapping, then through a plain mapping.
fn meet_both() {
    let (file, other) = filled(2);
    let (guarded, bare) = (file.map_guarded(Populate::Now).unwrap(), file.map(Populate::Now));
    truncate(&other, 0);
    assert_eq!((read(&guarded, 1), guarded.is_broken()), (0, true));
    read(&bare.unwrap(), 1);
}

#[test]
fn faults_elsewhere_go_to_the_handler_there_was() {
    let output = in_child("faults_elsewhere_go_to_the_handler_there_was", || {
        handle_by_leaving();
        meet_both();
    });
    assert_eq!(output.status.code(), Some(80), "{}", stderr(&output));
}

#[test]
fn faults_elsewhere_end_the_process_without_a_handler() {
    let output = in_child("faults_elsewhere_end_the_process_without_a_handler", meet_both);
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{}", stderr(&output));
}

#[test]
fn a_mapping_that_is_dropped_is_not_repaired_any_more() {
    let output = in_child("a_mapping_that_is_dropped_is_not_repaired_any_more", || {
        handle_by_leaving();
        let (file, other) = filled(1);
        let guarded = file.map_guarded(Populate::OnUse).unwrap();
        let start = guarded.start();
        drop(guarded);
        let bare = file.map(Populate::OnUse).unwrap();
        assert_eq!(bare.start(), start, "the kernel gives the same addresses again");
        truncate(&other, 0);
        read(&bare, 0);
    });
    assert_eq!(output.status.code(), Some(80), "{}", stderr(&output));
}

/// The hook that reports stack overflows may be installed before or after.
#[test]
fn a_hook_of_faults_lets_repairs_pass() {
    fn with_hook(is_first: bool) {
        handle_by_leaving();
        // SAFETY: the hook does nothing.
        let on_fault = || unsafe { signal::on_fault(|_| ()) };
        let early = is_first.then(on_fault);
        let (file, other) = filled(1);
        let guarded = file.map_guarded(Populate::OnUse).unwrap();
        early.unwrap_or_else(on_fault).unwrap();
        truncate(&other, 0);
        assert_eq!((read(&guarded, 0), guarded.is_broken()), (0, true));
        meet_both();
    }
    let name = "a_hook_of_faults_lets_repairs_pass";
    if child::is_child() {
        with_hook(std::env::var_os("DAIKO_TEST_FIRST").is_some());
    }
    for is_first in [false, true] {
        let mut command = child::command(name);
        let command = if is_first { command.env("DAIKO_TEST_FIRST", "1") } else { &mut command };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(80), "{is_first} {}", stderr(&output));
    }
}

#[test]
fn a_signal_that_was_sent_is_not_taken_for_a_fault() {
    let output = in_child("a_signal_that_was_sent_is_not_taken_for_a_fault", || {
        // SAFETY: neither the default effect nor `raise` runs code of the program. The handler of
        // std, which was installed before, would let the first signal pass.
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            let (file, _other) = filled(1);
            let _guarded = file.map_guarded(Populate::OnUse).unwrap();
            libc::raise(libc::SIGBUS);
        }
    });
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{}", stderr(&output));
}

#[test]
fn more_guarded_mappings_than_there_is_room_for_are_refused() {
    in_child_well("more_guarded_mappings_than_there_is_room_for_are_refused", || {
        let (file, other) = filled(1);
        for _ in 0..2 {
            let map = |_| file.map_guarded(Populate::OnUse).unwrap();
            let all: Vec<_> = (0..MOST_GUARDED).map(map).collect();
            let error = file.map_guarded(Populate::OnUse).unwrap_err();
            assert_eq!(error.reason(), Reason::TooMany);
            assert!(error.to_string().contains("drop one"));
            drop(all);
        }
        let last: Vec<_> =
            (0..MOST_GUARDED).map(|_| file.map_guarded(Populate::OnUse).unwrap()).collect();
        truncate(&other, 0);
        assert!(last.iter().all(|mapping| read(mapping, 0) == 0 && mapping.is_broken()));
    });
}
