//! Calls that may block the kernel thread.
//!
//! On a worker, each is made once it cannot block: the context waits until then, by an agent. It is
//! made at home where agents cannot wait for the descriptor, or the call has a time limit that the
//! kernel keeps. The file's own flags are left as they are.

use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::time::Duration;

use daiko_rt::Deadline;
use daiko_sys::selector::milliseconds;
use daiko_sys::user_dispatch::HandedOver;

use libc::{epoll_event, mmsghdr, msghdr, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t};
use libc::{ssize_t, timespec, timeval};

use crate::descriptor::{self, Awaited, Wanted};
use crate::home::{self, errand};
use crate::interrupt::Pending;
use crate::{cancel, clock, errno, futex, real};

/// Returns true if calls on `descriptor` shall not block. The cheapest question to the kernel.
fn is_nonblocking(descriptor: c_int) -> bool {
    // SAFETY: reads the flags. Not by `fcntl`, which may be a cancellation point.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, descriptor, libc::F_GETFL, 0) };
    flags & c_long::from(libc::O_NONBLOCK) != 0
}

/// Returns true if a call on `descriptor`, which may block, does not block now: the events have
/// come, or the call fails.
fn is_ready(descriptor: c_int, events: i16) -> bool {
    let mut poll = pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: the kernel writes the live local. Not by `poll`, which is a cancellation point.
    match unsafe { libc::syscall(libc::SYS_poll, &raw mut poll, 1, 0) } {
        0 => false,
        result => !is_interrupted(result),
    }
}

/// Returns true if a signal has ended the system call with this result: a poke, as workers block
/// the rest. The context is called home.
fn is_interrupted(result: c_long) -> bool {
    result == -1 && errno::get() == libc::EINTR
}

/// Returns true if calls that wait for these events of a socket have a time limit, which the kernel
/// keeps.
fn has_time_limit(descriptor: c_int, events: i16) -> bool {
    let option = if events == libc::POLLIN { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    let mut limit = timeval { tv_sec: 0, tv_usec: 0 };
    let mut bytes = size_of_val(&limit) as socklen_t;
    let (to, length) = ((&raw mut limit).cast(), &raw mut bytes);
    // SAFETY: the kernel writes the live locals. It fails for a file that is no socket.
    unsafe { libc::getsockopt(descriptor, libc::SOL_SOCKET, option, to, length) };
    limit.tv_sec != 0 || limit.tv_usec != 0
}

/// Makes a call on a descriptor: `here` on the worker once it does not block, or `at_home`.
/// `blocks` is false if its flags say so.
#[inline]
fn on<R: From<i8>>(
    descriptor: c_int,
    events: i16,
    blocks: bool,
    here: impl FnOnce() -> R,
    at_home: impl FnOnce() -> R,
) -> R {
    if home::of_lent().is_none() {
        return at_home();
    }
    cancel::test();
    if !blocks || is_nonblocking(descriptor) || is_ready(descriptor, events) {
        return here();
    }
    wait_on(descriptor, events, here, at_home)
}

#[cold]
fn wait_on<R: From<i8>>(
    descriptor: c_int,
    events: i16,
    here: impl FnOnce() -> R,
    at_home: impl FnOnce() -> R,
) -> R {
    if errno::keep(|| has_time_limit(descriptor, events)) {
        return errand(at_home);
    }
    loop {
        match descriptor::wait(&[Wanted { descriptor, events }], Deadline::NEVER) {
            Awaited::Refused => return errand(at_home),
            Awaited::Interrupted(Pending { ends_calls: true, .. }) => {
                errno::fail(libc::EINTR);
                return (-1).into();
            }
            _ if home::of_lent().is_none() => return at_home(),
            _ => cancel::test(),
        }
        if is_ready(descriptor, events) {
            return here();
        }
    }
}

/// Declares calls on a descriptor, which is the first argument, each with the events to wait for,
/// the system call that it is, and its flags.
macro_rules! on_descriptor {
    ($($door:ident = $name:ident($descriptor:ident $(, $argument:ident: $type:ty)*)
        -> $result:ty, $events:ident, $number:ident, $flags:expr;)*) => {$(
        /// # Safety
        ///
        /// As for the function of this name in the C library.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $door(
            $descriptor: c_int
            $(, $argument: $type)*
        ) -> $result {
            unsafe extern "C-unwind" {
                fn $name($descriptor: c_int $(, $argument: $type)*) -> $result;
            }
            on(
                $descriptor,
                libc::$events,
                $flags & libc::MSG_DONTWAIT == 0,
                // SAFETY: by this function's contract. Not by the C library, where it would be a
                // cancellation point.
                || unsafe { libc::syscall(libc::$number, $descriptor $(, $argument)*) as $result },
                // SAFETY: as above.
                || unsafe { $name($descriptor $(, $argument)*) },
            )
        }
    )*};
}

on_descriptor! {
    daiko_read = read(fd, to: *mut c_void, bytes: size_t) -> ssize_t, POLLIN, SYS_read, 0;
    daiko_write = write(fd, from: *const c_void, bytes: size_t) -> ssize_t, POLLOUT, SYS_write, 0;
    daiko_readv = readv(fd, to: *const libc::iovec, count: c_int) -> ssize_t, POLLIN, SYS_readv, 0;
    daiko_writev = writev(fd, from: *const libc::iovec, count: c_int) -> ssize_t, POLLOUT, SYS_writev, 0;
    daiko_recvfrom = recvfrom(
        fd, to: *mut c_void, bytes: size_t, flags: c_int, from: *mut sockaddr, len: *mut socklen_t
    ) -> ssize_t, POLLIN, SYS_recvfrom, flags;
    daiko_sendto = sendto(
        fd, from: *const c_void, bytes: size_t, flags: c_int, to: *const sockaddr, len: socklen_t
    ) -> ssize_t, POLLOUT, SYS_sendto, flags;
    daiko_recvmsg = recvmsg(fd, message: *mut msghdr, flags: c_int) -> ssize_t, POLLIN, SYS_recvmsg, flags;
    daiko_sendmsg = sendmsg(fd, message: *const msghdr, flags: c_int) -> ssize_t, POLLOUT, SYS_sendmsg, flags;
    daiko_recvmmsg = recvmmsg(
        fd, messages: *mut mmsghdr, count: u32, flags: c_int, timeout: *mut timespec
    ) -> c_int, POLLIN, SYS_recvmmsg, flags;
    daiko_accept = accept(fd, from: *mut sockaddr, len: *mut socklen_t) -> c_int, POLLIN, SYS_accept, 0;
    daiko_accept4 = accept4(
        fd, from: *mut sockaddr, len: *mut socklen_t, flags: c_int
    ) -> c_int, POLLIN, SYS_accept4, 0;
}

/// # Safety
///
/// As for `recv`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_recv(
    descriptor: c_int,
    to: *mut c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    let none = ptr::null_mut();
    // SAFETY: by this function's contract.
    unsafe { daiko_recvfrom(descriptor, to, bytes, flags, none, ptr::null_mut()) }
}

/// # Safety
///
/// As for `send`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_send(
    descriptor: c_int,
    from: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: by this function's contract.
    unsafe { daiko_sendto(descriptor, from, bytes, flags, ptr::null(), 0) }
}

/// # Safety
///
/// As for `connect`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_connect(
    descriptor: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: by this function's contract.
    let at_home = || unsafe { real::connect(descriptor, to, len) };
    if home::of_lent().is_none() || !is_nonblocking(descriptor) {
        return errand(at_home);
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_connect, descriptor, to, len) as c_int }
}

/// Polls `descriptors`: by `now`, which does not wait, until it finds an event; at home, by
/// `at_home`, if the agents cannot wait for them.
pub(crate) fn poll(
    descriptors: &[Wanted],
    deadline: Deadline,
    now: impl Fn() -> c_long,
    at_home: impl FnOnce() -> c_int,
) -> c_int {
    while home::of_lent().is_some() {
        cancel::test();
        let result = now();
        if is_interrupted(result) {
            break;
        }
        if result != 0 || deadline.is_over() {
            return result as c_int;
        }
        match descriptor::wait(descriptors, deadline) {
            Awaited::Refused => break,
            Awaited::Interrupted(Pending { handled: true, .. }) => {
                return errno::fail(libc::EINTR);
            }
            _ => {}
        }
    }
    errand(at_home)
}

/// Returns the time in so many milliseconds; a negative number means never.
fn after_ms(timeout: c_int) -> Deadline {
    u64::try_from(timeout)
        .map_or(Deadline::NEVER, |timeout| Deadline::after(Duration::from_millis(timeout)))
}

/// Polls descriptors, by agents if there are few.
///
/// # Safety
///
/// As for `poll`.
unsafe fn poll_here(
    descriptors: *mut pollfd,
    count: nfds_t,
    deadline: Deadline,
    at_home: impl FnOnce() -> c_int,
) -> c_int {
    let mut wanted = [Wanted { descriptor: -1, events: 0 }; descriptor::MOST];
    let mut some = 0;
    if home::of_lent().is_none() || count > wanted.len() as nfds_t {
        return errand(at_home);
    }
    for at in 0..count as usize {
        // SAFETY: by this function's contract.
        let poll = unsafe { *descriptors.add(at) };
        if poll.fd >= 0 {
            wanted[some] = Wanted { descriptor: poll.fd, events: poll.events };
            some += 1;
        }
    }
    // SAFETY: as above.
    let now = || unsafe { libc::syscall(libc::SYS_poll, descriptors, count, 0) };
    poll(&wanted[..some], deadline, now, at_home)
}

/// # Safety
///
/// As for `poll`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_poll(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
) -> c_int {
    let deadline = after_ms(timeout);
    // SAFETY: by this function's contract.
    unsafe {
        poll_here(descriptors, count, deadline, || {
            real::poll(descriptors, count, milliseconds(deadline.left()))
        })
    }
}

/// # Safety
///
/// As for `ppoll`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_ppoll(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: by this function's contract.
    let deadline = unsafe { clock::after(timeout) };
    let (Ok(deadline), true) = (deadline, mask.is_null()) else {
        // SAFETY: as above.
        return errand(|| unsafe { real::ppoll(descriptors, count, timeout, mask) });
    };
    // SAFETY: as above.
    unsafe {
        poll_here(descriptors, count, deadline, || {
            let left = deadline.left().map(clock::timespec);
            let left = left.as_ref().map_or(ptr::null(), ptr::from_ref);
            real::ppoll(descriptors, count, left, mask)
        })
    }
}

/// # Safety
///
/// As for `epoll_wait`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_epoll_wait(
    descriptor: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    let deadline = after_ms(timeout);
    poll(
        // An epoll instance has an event if a descriptor there has any.
        &[Wanted { descriptor, events: libc::POLLIN }],
        deadline,
        // SAFETY: by this function's contract.
        || unsafe { libc::syscall(libc::SYS_epoll_wait, descriptor, events, most, 0) },
        // SAFETY: as above.
        || unsafe { real::epoll_wait(descriptor, events, most, milliseconds(deadline.left())) },
    )
}

/// # Safety
///
/// As for `epoll_pwait`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_epoll_pwait(
    descriptor: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    if mask.is_null() {
        // SAFETY: by this function's contract.
        return unsafe { daiko_epoll_wait(descriptor, events, most, timeout) };
    }
    // SAFETY: by this function's contract.
    errand(|| unsafe { real::epoll_pwait(descriptor, events, most, timeout, mask) })
}

/// Makes a call that was handed over.
pub(crate) fn by_number(HandedOver { number, arguments }: HandedOver) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the code that has made the call answers for its arguments.
    unsafe { daiko_syscall(number, a, b, c, d, e, f) }
}

/// The system calls that concern the kernel thread, or may block it, are made at home.
///
/// # Safety
///
/// As for `syscall`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: by this function's contract. The words of arguments that the caller has not passed
    // are of no meaning to the kernel either.
    let call = || unsafe { libc::syscall(number, a, b, c, d, e, f) };
    match number {
        libc::SYS_gettid => c_long::from(home::thread_id()),
        libc::SYS_futex => {
            // SAFETY: by this function's contract.
            unsafe { futex::call([a, b, c, d, e, f]) }.unwrap_or_else(|| errand(call))
        }
        libc::SYS_getcpu
        | libc::SYS_getpid
        | libc::SYS_clock_gettime
        | libc::SYS_membarrier
        | libc::SYS_getrandom => call(),
        libc::SYS_sched_yield => {
            home::yield_now();
            0
        }
        libc::SYS_seccomp
        | libc::SYS_sched_setaffinity
        | libc::SYS_sched_setattr
        | libc::SYS_sched_setscheduler
        | libc::SYS_setpriority
        | libc::SYS_unshare
        | libc::SYS_setns => home::for_good(call),
        libc::SYS_clone | libc::SYS_clone3 => {
            futex::note_own_threads();
            errand(call)
        }
        libc::SYS_mmap
        | libc::SYS_shmat
        | libc::SYS_set_tid_address
        | libc::SYS_set_robust_list => {
            futex::note_foreign_wakes();
            errand(call)
        }
        libc::SYS_signalfd | libc::SYS_signalfd4 => {
            descriptor::note_signals_are_read();
            call()
        }
        libc::SYS_tgkill | libc::SYS_tkill | libc::SYS_rt_tgsigqueueinfo => {
            home::errand_of_signal(call)
        }
        _ => errand(call),
    }
}
