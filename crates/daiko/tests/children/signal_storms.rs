//! Waits end at their time, however often signals come.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{mem, ptr, thread};

use crate::support::child::in_child_well;
use crate::support::{PRESETS, end, migratable};
use daiko::net::UdpSocket;
use daiko::shm::{Event, Segment};
use daiko::sync::channel;
use daiko::watch::{self, at_least};
use daiko::{Builder, Runtime, time};
use daiko_sys::thread as kernel_thread;

/// The length of each wait: that of many signals.
const WAIT: Duration = Duration::from_millis(50);
/// Time between two signals to a thread.
const PERIOD: Duration = Duration::from_millis(1);
/// A storm ends after this time, so a wait that begins its time anew at each signal ends as well.
const STORM: Duration = Duration::from_secs(30);

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Lets SIGUSR1 call `count`.
fn handle_signals() {
    // SAFETY: the action is complete, and its handler touches one atomic.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut()), 0);
    }
}

/// Sends a signal to all other threads of the process, again and again, until `is_over`.
fn storm(is_over: &AtomicBool) {
    let (start, me) = (Instant::now(), kernel_thread::id());
    while !is_over.load(Ordering::Relaxed) && start.elapsed() < STORM {
        let others = kernel_thread::all().unwrap().into_iter().filter(|thread| *thread != me);
        others.for_each(|thread| {
            // SAFETY: takes plain integers. Fails if the thread has ended.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
        });
        thread::sleep(PERIOD);
    }
}

/// Runs a wait of `WAIT` in a storm, until signals have come in it. It ends before the storm.
#[track_caller]
fn in_a_storm(name: &str, wait: impl Fn()) {
    let is_over = AtomicBool::new(false);
    let ends_first = thread::scope(|threads| {
        let storm = threads.spawn(|| storm(&is_over));
        loop {
            let before = SIGNALS.load(Ordering::Relaxed);
            wait();
            if SIGNALS.load(Ordering::Relaxed) >= before + 3 {
                break;
            }
        }
        let ends_first = !storm.is_finished();
        is_over.store(true, Ordering::Relaxed);
        ends_first
    });
    assert!(ends_first, "{name} has waited for the end of the signals");
}

fn receives() {
    let (_sender, receiver) = channel::bounded::<u8>(1);
    receiver.recv_timeout(WAIT).unwrap_err();
}

fn watches() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    watch::wait_until_timeout(&WORD, at_least(1), WAIT).unwrap_err();
}

fn is_notified() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    watch::wait_until_notified_timeout(&WORD, at_least(1), WAIT).unwrap_err();
}

fn receives_from_the_network() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.recv(&mut [0]).unwrap_err();
}

fn waits_in_a_segment() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    Event::create(&segment, "never").unwrap().wait_timeout(WAIT).unwrap_err();
}

const WAITS: [(&str, fn()); 7] = [
    ("sleep", || time::sleep(WAIT)),
    ("park_timeout", || daiko::park_timeout(WAIT)),
    ("recv_timeout", receives),
    ("wait_until_timeout", watches),
    ("wait_until_notified_timeout", is_notified),
    ("a socket's recv", receives_from_the_network),
    ("wait_timeout of a shared event", waits_in_a_segment),
];

#[test]
fn a_fiber_waits_no_longer() {
    in_child_well("signal_storms::a_fiber_waits_no_longer", || {
        handle_signals();
        for preset in PRESETS {
            let runtime = Runtime::builder().workers(1).preset(preset).build().unwrap();
            for (name, wait) in WAITS {
                for builder in [Builder::new, migratable] {
                    in_a_storm(name, || {
                        runtime.spawn_with(builder(), wait).unwrap().join().unwrap();
                    });
                }
            }
            end(runtime);
        }
    });
}

#[test]
fn a_thread_waits_no_longer() {
    in_child_well("signal_storms::a_thread_waits_no_longer", || {
        handle_signals();
        in_a_storm("recv_timeout", receives);
        in_a_storm("wait_timeout of a shared event", waits_in_a_segment);
    });
}
