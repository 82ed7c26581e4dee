//! Signals of the process that only lent threads leave open.
//!
//! The kernel gives a signal of the process to a thread that leaves it open, and homes block all
//! signals while their contexts are lent. As long as the initial thread, which is native, leaves a
//! signal open, it gets the signal. Once it may not any more, a thread of the engine waits for
//! signals that nothing takes, and calls a context home that leaves one open.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use daiko_sys::descriptor::Reserved;
use daiko_sys::selector::{Epoll, Selector};

use crate::home::{Home, list};
use crate::mask::Mask;
use crate::own_thread::OwnThread;

/// The thread.
pub(crate) static WATCHER: OwnThread = OwnThread::new("daiko-signals");

/// Starts the thread, if any context may be lent: the initial thread is about to block signals, or
/// to end.
pub(crate) fn watch() {
    if list::lock().is_empty() {
        return;
    }
    WATCHER.get_or_start(|| {
        let arrivals = Arrivals::open()?;
        Some(move || call_home(&arrivals))
    });
}

/// An epoll instance that reports each signal that comes.
struct Arrivals {
    epoll: Epoll,
    _signals: Reserved<OwnedFd>,
}

impl Arrivals {
    fn open() -> Option<Self> {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is written before it is read.
        let fd = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::signalfd(-1, all.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return None;
        }
        // SAFETY: the kernel has just opened it, and nothing else owns it.
        let signals = Reserved::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let epoll = Epoll::new().ok()?;
        epoll.watch_each(signals.as_raw_fd(), 0, libc::EPOLLIN as u32).ok()?;
        Some(Arrivals { epoll, _signals: signals })
    }
}

/// The life of the thread.
fn call_home(arrivals: &Arrivals) {
    loop {
        if arrivals.epoll.wait(None, &mut |_| ()).is_err() {
            return;
        }
        // One that has been called may have blocked the signal on its way.
        while call_one(Mask::pending()) {
            const PERIOD: Duration = Duration::from_millis(1);
            std::thread::sleep(PERIOD);
        }
    }
}

/// Calls a context home that leaves one of these signals open. Returns false if there is none.
fn call_one(pending: Mask) -> bool {
    let homes = list::lock();
    let takes = |home: &&Home| home.leaves_open(pending);
    homes.running_homes().find(takes).inspect(|home| home.call_home()).is_some()
}
