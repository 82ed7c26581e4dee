//! Tests for selectors of all kinds, followed by tests for a single kind.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use super::*;
use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::descriptor::{Reservation, numbered_from, reserve_by};
use crate::testing::{LinuxPart, forbid, in_fork};

/// Opens a selector of this kind. The test is skipped if the system has none.
fn opened(kind: SelectorKind) -> Option<Box<dyn Selector>> {
    match probe(kind) {
        Ok(()) => Some(open(kind).unwrap()),
        Err(refused) => {
            println!("skipped: {refused}");
            None
        }
    }
}

macro_rules! for_all_kinds {
    ($($name:ident)*) => {
        for_all_kinds! { epoll SelectorKind::Epoll; $($name)* }
        for_all_kinds! { ring_deferred SelectorKind::Ring { deferred: true }; $($name)* }
        for_all_kinds! { ring_default SelectorKind::Ring { deferred: false }; $($name)* }
    };
    ($module:ident $kind:expr; $($name:ident)*) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $name() {
                    if let Some(selector) = opened($kind) {
                        super::$name(&*selector);
                    }
                }
            )*
        }
    };
}

for_all_kinds! {
    a_descriptor_that_is_ready_already_is_a_change
    a_change_is_told_once
    both_directions_are_told
    a_direction_can_be_added_and_taken_back
    a_full_socket_is_writable_once_it_is_drained
    the_end_of_the_peer_closes_both_directions
    a_peer_that_writes_no_more_closes_reading_alone
    a_reset_connection_is_closed
    a_listener_tells_of_connections
    an_unwatched_descriptor_is_not_reported
    the_peer_sees_the_end_when_an_unwatched_socket_is_closed
    a_change_about_to_be_told_keeps_nothing_watched
    a_token_can_be_used_again
    a_descriptor_that_is_not_watched_can_be_unwatched
    a_closed_descriptor_can_be_unwatched
    a_thousand_descriptors_are_told_apart
    a_wait_ends_when_its_time_has_passed
    a_wait_tells_of_changes
    a_ring_ends_a_wait_under_way
    a_ring_ends_the_next_wait
    a_ring_that_a_look_has_met_ends_the_next_wait
    no_ring_of_many_is_lost
    a_callback_may_use_the_selector
    a_callback_that_panics_leaves_a_working_selector
    a_token_of_more_bits_is_refused
    a_signal_ends_a_wait_without_an_error
}

/// All events reported now.
fn look(selector: &dyn Selector) -> Vec<Readiness> {
    let mut events = Vec::new();
    while selector.poll(&mut |event| events.push(event)).unwrap() > 0 {}
    events
}

/// All events reported now, merged. They are of one descriptor.
fn single_event(selector: &dyn Selector) -> Readiness {
    let events = look(selector);
    events.into_iter().reduce(merged).expect("an event")
}

/// Merges events, as kinds differ in reporting two directions as one event or two.
fn merged(one: Readiness, other: Readiness) -> Readiness {
    assert_eq!(one.token, other.token);
    Readiness {
        token: one.token,
        ready: one.ready | other.ready,
        closed: one.closed | other.closed,
        ended: one.ended | other.ended,
    }
}

/// An event that closes nothing, after which the kernel keeps watching.
fn ready(token: u64, ready: Interest) -> Readiness {
    Readiness { token, ready, closed: Interest::NONE, ended: Interest::NONE }
}

fn watch(selector: &dyn Selector, fd: &impl AsFd, token: u64, of: Interest) {
    selector.watch(fd.as_fd(), token, Interest::NONE, of).unwrap();
}

fn unwatch(selector: &dyn Selector, fd: &impl AsFd, token: u64, of: Interest) {
    selector.unwatch(Some(fd.as_fd()), token, of).unwrap();
}

fn pair() -> (UnixStream, UnixStream) {
    let (here, there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    (here, there)
}

/// Writes until there is no room.
fn fill(mut stream: &UnixStream) {
    stream.set_nonblocking(true).unwrap();
    let error = loop {
        if let Err(error) = stream.write_all(&[0; 4096]) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

/// Reads until there is no data.
fn drain(mut stream: &UnixStream) {
    stream.set_nonblocking(true).unwrap();
    while stream.read(&mut [0; 4096]).is_ok() {}
}

fn a_descriptor_that_is_ready_already_is_a_change(selector: &dyn Selector) {
    let (here, mut there) = pair();
    there.write_all(b"x").unwrap();
    watch(selector, &here, 5, Interest::READ);
    assert_eq!(look(selector), [ready(5, Interest::READ)]);
}

fn a_change_is_told_once(selector: &dyn Selector) {
    let (mut here, mut there) = pair();
    watch(selector, &here, 5, Interest::READ);
    assert_eq!(look(selector), []);
    for _ in 0..3 {
        there.write_all(b"x").unwrap();
        assert_eq!(look(selector), [ready(5, Interest::READ)]);
        assert_eq!(look(selector), [], "told again, though nothing has changed");
    }
    assert_eq!(here.read(&mut [0; 8]).unwrap(), 3);
    assert_eq!(look(selector), []);
}

fn both_directions_are_told(selector: &dyn Selector) {
    let (here, mut there) = pair();
    watch(selector, &here, 5, Interest::BOTH);
    assert_eq!(look(selector), [ready(5, Interest::WRITE)]);
    there.write_all(b"x").unwrap();
    assert!(single_event(selector).ready.contains(Interest::READ));
}

fn a_direction_can_be_added_and_taken_back(selector: &dyn Selector) {
    let (here, mut there) = pair();
    watch(selector, &here, 5, Interest::READ);
    selector.watch(here.as_fd(), 5, Interest::READ, Interest::BOTH).unwrap();
    assert_eq!(single_event(selector), ready(5, Interest::WRITE));
    selector.watch(here.as_fd(), 5, Interest::BOTH, Interest::WRITE).unwrap();
    look(selector);
    there.write_all(b"x").unwrap();
    let told = look(selector);
    assert!(told.iter().all(|event| !event.ready.contains(Interest::READ)), "{told:?}");
    selector.watch(here.as_fd(), 5, Interest::WRITE, Interest::READ).unwrap();
    assert_eq!(single_event(selector), ready(5, Interest::READ));
    selector.watch(here.as_fd(), 5, Interest::READ, Interest::NONE).unwrap();
    there.write_all(b"x").unwrap();
    assert_eq!(look(selector), []);
}

fn a_full_socket_is_writable_once_it_is_drained(selector: &dyn Selector) {
    let (here, there) = pair();
    fill(&here);
    watch(selector, &here, 5, Interest::WRITE);
    assert_eq!(look(selector), []);
    drain(&there);
    assert_eq!(single_event(selector), ready(5, Interest::WRITE));
    fill(&here);
    assert_eq!(look(selector), []);
}

fn the_end_of_the_peer_closes_both_directions(selector: &dyn Selector) {
    let (here, mut there) = pair();
    watch(selector, &here, 5, Interest::BOTH);
    look(selector);
    there.write_all(b"x").unwrap();
    // To drop it is not enough: the child of a test that forks has a copy for a while.
    there.shutdown(Shutdown::Both).unwrap();
    let event = single_event(selector);
    assert_eq!((event.ready, event.closed), (Interest::BOTH, Interest::BOTH));
}

fn a_peer_that_writes_no_more_closes_reading_alone(selector: &dyn Selector) {
    let (here, there) = pair();
    watch(selector, &here, 5, Interest::READ);
    there.shutdown(Shutdown::Write).unwrap();
    let event = single_event(selector);
    assert_eq!((event.ready, event.closed), (Interest::READ, Interest::READ));
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, there)
}

fn a_reset_connection_is_closed(selector: &dyn Selector) {
    let (here, mut there) = connected();
    (&here).write_all(b"left unread").unwrap();
    assert!(there.peek(&mut [0]).is_ok());
    watch(selector, &here, 5, Interest::READ);
    // Closing with unread data sends a reset.
    there.write_all(b"x").unwrap();
    drop(there);
    let mut closed = Interest::NONE;
    while closed != Interest::BOTH {
        selector.wait(None, &mut |event| closed = closed | event.closed).unwrap();
    }
    assert!((&here).write(b"x").is_err());
}

fn a_listener_tells_of_connections(selector: &dyn Selector) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    watch(selector, &listener, 9, Interest::READ);
    for _ in 0..3 {
        let _there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut told = 0;
        while told == 0 {
            told = selector
                .wait(None, &mut |event| assert_eq!(event, ready(9, Interest::READ)))
                .unwrap();
        }
        listener.accept().unwrap();
    }
}

fn an_unwatched_descriptor_is_not_reported(selector: &dyn Selector) {
    let (here, mut there) = pair();
    watch(selector, &here, 5, Interest::BOTH);
    look(selector);
    unwatch(selector, &here, 5, Interest::BOTH);
    there.write_all(b"x").unwrap();
    drop(there);
    assert_eq!(look(selector), []);
}

fn the_peer_sees_the_end_when_an_unwatched_socket_is_closed(selector: &dyn Selector) {
    let (unix, unix_peer) = pair();
    let (tcp, tcp_peer) = connected();
    for (token, fd) in [(1, unix.as_fd()), (2, tcp.as_fd())] {
        watch(selector, &fd, token, Interest::BOTH);
        look(selector);
        unwatch(selector, &fd, token, Interest::BOTH);
    }
    drop((unix, tcp));
    // These block for ever if a request still holds the socket.
    assert_eq!((&unix_peer).read(&mut [0]).unwrap(), 0);
    assert_eq!((&tcp_peer).read(&mut [0]).unwrap(), 0);
}

fn a_change_about_to_be_told_keeps_nothing_watched(selector: &dyn Selector) {
    let (mut here, mut there) = pair();
    watch(selector, &here, 5, Interest::READ);
    look(selector);
    there.write_all(b"x").unwrap();
    unwatch(selector, &here, 5, Interest::READ);
    look(selector);
    there.write_all(b"x").unwrap();
    assert_eq!(look(selector), []);
    assert_eq!(here.read(&mut [0; 8]).unwrap(), 2);
    drop(here);
    assert_eq!(there.read(&mut [0]).unwrap(), 0);
}

fn a_token_can_be_used_again(selector: &dyn Selector) {
    for _ in 0..3 {
        let (here, mut there) = pair();
        watch(selector, &here, 5, Interest::READ);
        assert_eq!(look(selector), []);
        there.write_all(b"x").unwrap();
        assert_eq!(look(selector), [ready(5, Interest::READ)]);
        unwatch(selector, &here, 5, Interest::READ);
    }
}

fn a_descriptor_that_is_not_watched_can_be_unwatched(selector: &dyn Selector) {
    let (here, mut there) = pair();
    unwatch(selector, &here, 5, Interest::BOTH);
    assert_eq!(look(selector), []);
    watch(selector, &here, 5, Interest::READ);
    unwatch(selector, &here, 5, Interest::READ);
    unwatch(selector, &here, 5, Interest::READ);
    there.write_all(b"x").unwrap();
    assert_eq!(look(selector), []);
}

fn a_closed_descriptor_can_be_unwatched(selector: &dyn Selector) {
    let (here, mut there) = pair();
    watch(selector, &here, 5, Interest::READ);
    drop(here);
    selector.unwatch(None, 5, Interest::READ).unwrap();
    assert_eq!(look(selector), []);
    assert_eq!(there.read(&mut [0]).unwrap(), 0);
}

fn a_thousand_descriptors_are_told_apart(selector: &dyn Selector) {
    let mut pairs: Vec<_> = (0..1000).map(|_| pair()).collect();
    for (token, (here, _)) in pairs.iter().enumerate() {
        watch(selector, here, (1 << 61) | token as u64, Interest::READ);
    }
    for all in [true, false] {
        let mut expected = Vec::new();
        for (token, (_, there)) in pairs.iter_mut().enumerate().filter(|(i, _)| all || i % 3 == 0) {
            there.write_all(b"x").unwrap();
            expected.push(ready((1 << 61) | token as u64, Interest::READ));
        }
        let mut told = look(selector);
        told.sort_by_key(|event| event.token);
        assert_eq!(told, expected);
    }
}

fn a_wait_ends_when_its_time_has_passed(selector: &dyn Selector) {
    for timeout in [0, 1, 1_500_000].map(Duration::from_nanos) {
        assert_eq!(selector.wait(Some(timeout), &mut |_| unreachable!()).unwrap(), 0);
    }
}

fn a_wait_tells_of_changes(selector: &dyn Selector) {
    let (here, mut there) = pair();
    watch(selector, &here, 5, Interest::READ);
    for timeout in [None, Some(Duration::MAX), Some(Duration::ZERO)] {
        there.write_all(b"x").unwrap();
        let mut told = Vec::new();
        assert_eq!(selector.wait(timeout, &mut |event| told.push(event)).unwrap(), 1);
        assert_eq!(told, [ready(5, Interest::READ)]);
    }
}

fn a_ring_ends_a_wait_under_way(selector: &dyn Selector) {
    for timeout in [None, Some(Duration::MAX)] {
        let rung = AtomicBool::new(false);
        let waits = crate::thread::id();
        std::thread::scope(|s| {
            s.spawn(|| {
                while crate::thread::is_runnable(waits) {
                    std::thread::yield_now();
                }
                rung.store(true, Ordering::SeqCst);
                selector.ring();
            });
            assert_eq!(selector.wait(timeout, &mut |_| unreachable!()).unwrap(), 0);
            assert!(rung.load(Ordering::SeqCst), "nothing else ends it");
        });
    }
}

fn a_ring_ends_the_next_wait(selector: &dyn Selector) {
    for _ in 0..3 {
        selector.ring();
        selector.ring();
        assert_eq!(selector.wait(None, &mut |_| unreachable!()).unwrap(), 0);
    }
}

fn a_ring_that_a_look_has_met_ends_the_next_wait(selector: &dyn Selector) {
    // The first wait is the call that watches the doorbell.
    selector.wait(Some(Duration::ZERO), &mut |_| ()).unwrap();
    for _ in 0..3 {
        selector.ring();
        assert_eq!(look(selector), []);
        assert_eq!(selector.wait(None, &mut |_| unreachable!()).unwrap(), 0);
    }
}

/// Each thread waits for the other: a lost ring blocks both.
fn no_ring_of_many_is_lost(selector: &dyn Selector) {
    let (rung, waited) = (AtomicBool::new(false), AtomicBool::new(false));
    let is_told = |flag: &AtomicBool| flag.swap(false, Ordering::SeqCst);
    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..2000 {
                rung.store(true, Ordering::SeqCst);
                selector.ring();
                while !is_told(&waited) {
                    std::thread::yield_now();
                }
            }
        });
        for round in 0..2000 {
            while !is_told(&rung) {
                if round % 2 == 0 {
                    look(selector);
                }
                selector.wait(None, &mut |_| unreachable!()).unwrap();
            }
            waited.store(true, Ordering::SeqCst);
        }
    });
}

fn a_callback_may_use_the_selector(selector: &dyn Selector) {
    let ((here, mut there), (other, _peer)) = (pair(), pair());
    watch(selector, &here, 5, Interest::READ);
    there.write_all(b"x").unwrap();
    let mut told = Vec::new();
    let count = selector.poll(&mut |event| {
        assert_eq!(event.token, 5);
        unwatch(selector, &here, 5, Interest::READ);
        watch(selector, &other, 6, Interest::WRITE);
        selector.poll(&mut |event| told.push(event)).unwrap();
    });
    assert_eq!(count.unwrap(), 1);
    assert_eq!(told, [ready(6, Interest::WRITE)]);
}

/// Calls the selector, which has to panic.
fn panics(call: impl FnOnce()) {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
}

fn a_callback_that_panics_leaves_a_working_selector(selector: &dyn Selector) {
    let (here, mut there) = pair();
    watch(selector, &here, 5, Interest::READ);
    there.write_all(b"x").unwrap();
    selector.ring();
    panics(|| _ = selector.poll(&mut |_| panic!("as expected")));
    a_ring_ends_the_next_wait(selector);
    there.write_all(b"x").unwrap();
    assert_eq!(look(selector), [ready(5, Interest::READ)]);
}

fn a_token_of_more_bits_is_refused(selector: &dyn Selector) {
    let (here, _there) = pair();
    panics(|| watch(selector, &here, 1 << 62, Interest::READ));
    watch(selector, &here, (1 << 62) - 1, Interest::WRITE);
    assert_eq!(look(selector), [ready((1 << 62) - 1, Interest::WRITE)]);
}

fn a_signal_ends_a_wait_without_an_error(selector: &dyn Selector) {
    let kind = selector.kind();
    in_fork(|| {
        let selector = open(kind).unwrap();
        extern "C" fn nothing(_: libc::c_int) {}
        let often = libc::timeval { tv_sec: 0, tv_usec: 2000 };
        let timer = libc::itimerval { it_interval: often, it_value: often };
        // SAFETY: zero is a valid `sigaction`: an empty mask and no flags. The handler does
        // nothing, and all pointers are to live locals.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
            assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
        }
        // Repeated, because the first wait also submits a request and returns the number submitted.
        for _ in 0..3 {
            assert_eq!(selector.wait(None, &mut |_| unreachable!()).unwrap(), 0);
        }
    });
}

#[test]
fn sets_of_directions_are_sets() {
    let (none, read, write, both) =
        (Interest::NONE, Interest::READ, Interest::WRITE, Interest::BOTH);
    assert_eq!((read | write, both & write, !read, !both), (both, write, write, none));
    assert!(both.contains(read) && !read.contains(both) && read.contains(none) && none.is_empty());
    for set in [none, read, write, both] {
        assert_eq!(Interest::from_bits(set.bits() | 0b1111_1100), set);
    }
    assert_eq!(format!("{both:?}"), "READ | WRITE");
}

#[test]
fn epoll_serves_all_threads() {
    let selector = Epoll::new().unwrap();
    assert!(!selector.is_bound());
    let (here, mut there) = pair();
    std::thread::scope(|s| s.spawn(|| watch(&selector, &here, 5, Interest::READ)).join().unwrap());
    there.write_all(b"x").unwrap();
    assert_eq!(look(&selector), [ready(5, Interest::READ)]);
}

#[test]
fn epoll_refuses_always_ready_descriptors_and_says_so() {
    let file = File::open("/proc/self/exe").unwrap();
    let selector = Epoll::new().unwrap();
    let refused = selector.watch(file.as_fd(), 5, Interest::NONE, Interest::READ).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("always ready"), "{refused}");
}

/// A descriptor was closed without `unwatch` while a duplicate lives on.
#[test]
fn epoll_takes_a_number_over_that_is_watched_already() {
    let selector = Epoll::new().unwrap();
    let (here, mut there) = pair();
    let number = here.as_raw_fd();
    watch(&selector, &here, 5, Interest::READ);
    let other = here.try_clone().unwrap();
    drop(here);
    // SAFETY: the number was closed here. If another test has reused it, its file is not replaced.
    let again = unsafe { libc::fcntl(other.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) };
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    let again = unsafe { OwnedFd::from_raw_fd(again) };
    watch(&selector, &again, 6, Interest::READ);
    there.write_all(b"x").unwrap();
    assert!(look(&selector).contains(&ready(6, Interest::READ)));
}

/// The number was closed and now belongs to another file: the old watch is gone.
#[test]
fn epoll_watches_a_number_anew_after_an_unseen_close() {
    let selector = Epoll::new().unwrap();
    let (here, mut there) = pair();
    selector.watch(here.as_fd(), 5, Interest::READ, Interest::BOTH).unwrap();
    there.write_all(b"x").unwrap();
    assert_eq!(single_event(&selector), ready(5, Interest::BOTH));
}

#[test]
fn epoll_without_fine_timeouts_rounds_up() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    in_fork(|| {
        forbid(libc::SYS_epoll_pwait2, libc::ENOSYS);
        let selector = Epoll::new().unwrap();
        a_wait_ends_when_its_time_has_passed(&selector);
        a_wait_tells_of_changes(&selector);
        a_ring_ends_the_next_wait(&selector);
    });
}

/// Rings of both kinds with room for `completions`, if the system has them.
pub(super) fn rings(completions: u32) -> impl Iterator<Item = RingSelector> {
    [true, false].into_iter().filter_map(move |deferred| {
        opened(SelectorKind::Ring { deferred })?;
        Some(RingSelector::with_completions(deferred, completions).unwrap())
    })
}

#[test]
fn a_ring_with_too_little_room_loses_no_change() {
    for selector in rings(8) {
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        for (token, (here, _)) in pairs.iter().enumerate() {
            watch(&selector, here, token as u64, Interest::READ);
        }
        let mut has_ended = false;
        for round in 1..=5 {
            pairs.iter().for_each(|(_, there)| (&*there).write_all(b"x").unwrap());
            let mut told = vec![false; pairs.len()];
            while told.contains(&false) {
                let events = look(&selector);
                assert!(!events.is_empty(), "round {round}: {told:?}");
                for event in events {
                    told[event.token as usize] |= event.ready.contains(Interest::READ);
                    if !event.ended.is_empty() {
                        has_ended = true;
                        watch(&selector, &pairs[event.token as usize].0, event.token, event.ended);
                    }
                }
            }
        }
        assert!(has_ended, "the queue was never too small");
    }
}

#[test]
fn a_ring_hears_its_doorbell_after_an_overflow() {
    for selector in rings(8) {
        selector.wait(Some(Duration::ZERO), &mut |_| ()).unwrap();
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        for (token, (here, _)) in pairs.iter().enumerate() {
            watch(&selector, here, token as u64, Interest::READ);
        }
        for round in 0..3 {
            pairs.iter().for_each(|(_, there)| (&*there).write_all(b"x").unwrap());
            selector.ring();
            look(&selector);
            for _ in 0..3 {
                selector.ring();
                let mut events = 0;
                selector.wait(None, &mut |_| events += 1).unwrap();
                assert_eq!(events, 0, "round {round}");
            }
        }
    }
}

#[test]
fn a_ring_reports_the_end_of_an_always_ready_descriptor() {
    for selector in rings(64) {
        let file = File::open("/proc/self/exe").unwrap();
        watch(&selector, &file, 5, Interest::READ);
        assert_eq!(
            look(&selector),
            [Readiness { ended: Interest::READ, ..ready(5, Interest::READ) }]
        );
    }
}

#[test]
fn a_ring_tells_of_a_descriptor_that_it_cannot_watch() {
    for selector in rings(64) {
        // SAFETY: no file ever has this number.
        let nothing = unsafe { BorrowedFd::borrow_raw(i32::MAX) };
        watch(&selector, &nothing, 5, Interest::READ);
        assert_eq!(
            look(&selector),
            [Readiness { ended: Interest::READ, ..ready(5, Interest::READ) }]
        );
    }
}

#[test]
fn a_ring_is_for_one_thread() {
    for selector in rings(64) {
        assert!(selector.is_bound());
        let poll = || selector.poll(&mut |_| ()).unwrap();
        let other = std::thread::scope(|s| s.spawn(poll).join());
        assert!(other.is_err(), "another thread has used it");
        poll();
    }
}

fn mapped_rings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("io_uring")).count()
}

#[test]
fn a_ring_is_not_mapped_in_a_forked_child() {
    for kind in [true, false].map(|deferred| SelectorKind::Ring { deferred }) {
        if opened(kind).is_none() {
            continue;
        }
        // In a forked process, as other tests may be creating rings at the time of the fork.
        in_fork(|| {
            let before = mapped_rings();
            let selector = open(kind).unwrap();
            let (here, mut there) = pair();
            watch(&*selector, &here, 5, Interest::READ);
            assert!(mapped_rings() > before);
            in_fork(|| assert_eq!(mapped_rings(), before));
            there.write_all(b"x").unwrap();
            assert_eq!(look(&*selector), [ready(5, Interest::READ)]);
        });
    }
}

#[test]
fn the_chosen_selector_works_and_epoll_is_never_refused() {
    let choice = choose();
    let selector = opened(choice.kind).unwrap();
    assert_eq!(selector.kind(), choice.kind);
    a_wait_tells_of_changes(&*selector);
    assert_eq!(choice.refused.is_none(), choice.kind == SelectorKind::Ring { deferred: true });
    assert_eq!(probe(SelectorKind::Epoll), Ok(()));
}

/// A filter may forbid only the use. If io_uring is refused anyway, the reason is the earlier call.
#[test]
fn where_a_filter_forbids_io_uring_epoll_is_chosen_and_the_reason_told() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    for (number, call) in
        [(libc::SYS_io_uring_enter, "io_uring_enter"), (libc::SYS_io_uring_setup, "io_uring_setup")]
    {
        let has_rings = probe(SelectorKind::Ring { deferred: false }).is_ok();
        in_fork(|| {
            forbid(number, libc::EPERM);
            let choice = choose();
            assert_eq!(choice.kind, SelectorKind::Epoll);
            a_wait_tells_of_changes(&*open(choice.kind).unwrap());
            let why = choice.refused.unwrap().to_string();
            assert!(!has_rings || why.starts_with(call) && why.contains("seccomp"), "{why}");
        });
    }
}

#[test]
fn where_the_kernel_lacks_io_uring_the_reason_says_since_when_there_is() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    in_fork(|| {
        forbid(libc::SYS_io_uring_setup, libc::ENOSYS);
        for (deferred, since) in [(true, "6.1"), (false, "5.13")] {
            let refused = probe(SelectorKind::Ring { deferred }).unwrap_err();
            assert!(refused.to_string().contains(since), "{refused}");
        }
    });
}

#[test]
fn a_thread_waits_for_one_descriptor() -> io::Result<()> {
    let (here, mut there) = pair();
    let now = Some(Duration::ZERO);
    assert!(!wait_for(here.as_fd(), Interest::READ, now)?);
    assert!(wait_for(here.as_fd(), Interest::BOTH, Some(Duration::MAX))?);
    there.write_all(b"x")?;
    assert!(wait_for(here.as_fd(), Interest::READ, None)?);
    drain(&here);
    there.shutdown(Shutdown::Write)?;
    assert!(wait_for(here.as_fd(), Interest::READ, now)?, "the end is to be read");
    fill(&here);
    assert!(!wait_for(here.as_fd(), Interest::WRITE, now)?);
    Ok(())
}

fn look_once(epoll: &Epoll) -> Vec<u64> {
    let mut tokens = Vec::new();
    epoll.poll_elsewhere(&mut |event| tokens.push(event.token)).unwrap();
    tokens
}

#[test]
fn a_request_for_one_report_ends_with_it() {
    let epoll = Epoll::new().unwrap();
    let (mut own, mut peer) = UnixStream::pair().unwrap();
    let watch = || epoll.watch_once(own.as_raw_fd(), 7, libc::EPOLLIN as u32).unwrap();
    watch();
    assert_eq!(look_once(&epoll), []);
    peer.write_all(b"a").unwrap();
    assert_eq!(look_once(&epoll), [7]);
    peer.write_all(b"b").unwrap();
    assert_eq!(look_once(&epoll), []);
    // The event is there already.
    watch();
    assert_eq!(look_once(&epoll), [7]);
    own.read_exact(&mut [0; 2]).unwrap();
    epoll.watch_once(own.as_raw_fd(), 8, libc::EPOLLIN as u32).unwrap();
    epoll.watch_once(own.as_raw_fd(), 9, (libc::EPOLLIN | libc::EPOLLOUT) as u32).unwrap();
    assert_eq!(look_once(&epoll), [9]);
}

#[test]
fn a_number_that_is_used_again_is_watched_anew() {
    let epoll = Epoll::new().unwrap();
    let (first, _first_peer) = UnixStream::pair().unwrap();
    epoll.watch_once(first.as_raw_fd(), 1, libc::EPOLLIN as u32).unwrap();
    let number = first.as_raw_fd();
    let (second, mut peer) = UnixStream::pair().unwrap();
    // SAFETY: closes the first file; the number is that of the second one from here on.
    assert_eq!(unsafe { libc::dup2(second.as_raw_fd(), number) }, number);
    epoll.watch_once(number, 2, libc::EPOLLIN as u32).unwrap();
    peer.write_all(b"a").unwrap();
    assert_eq!(look_once(&epoll), [2]);
    let file = File::open("/proc/self/exe").unwrap();
    let refused = epoll.watch_once(file.as_raw_fd(), 3, libc::EPOLLIN as u32).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
}

#[test]
fn a_poll_elsewhere_leaves_each_ring_to_the_thread_that_waits() {
    let epoll = Epoll::new().unwrap();
    const WAITS: u32 = 1000;
    let ended = AtomicU32::new(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..WAITS {
                epoll.wait(None, &mut |_| unreachable!("nothing is watched")).unwrap();
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        for waits in 1..=WAITS {
            epoll.ring();
            while ended.load(Ordering::Relaxed) < waits {
                assert_eq!(look_once(&epoll), []);
            }
        }
    });
    epoll.ring();
    assert_eq!(look_once(&epoll), []);
    epoll.wait(None, &mut |_| unreachable!("nothing is watched")).unwrap();
}

#[test]
fn descriptors_are_numbered_as_asked_and_given_back() {
    static LOWEST: AtomicU32 = AtomicU32::new(300);
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    fn take(fd: OwnedFd) -> OwnedFd {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        let lowest = LOWEST.load(Ordering::Relaxed).cast_signed();
        let fd = numbered_from(lowest, fd);
        // No process may have as many as the last number.
        assert!(fd.as_raw_fd() >= lowest || lowest == RawFd::MAX);
        fd
    }
    fn give_back(_: RawFd) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
    }
    // In a process of its own: descriptors of other tests are not reserved.
    in_fork(|| {
        reserve_by(Reservation { take, give_back });
        for lowest in [300, RawFd::MAX] {
            LOWEST.store(lowest.cast_unsigned(), Ordering::Relaxed);
            let epoll = Epoll::new().unwrap();
            assert_eq!(TAKEN.load(Ordering::Relaxed), 2);
            epoll.ring();
            epoll.wait(None, &mut |_| ()).unwrap();
            drop(epoll);
            assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
        }
    });
}
