//! Calls on descriptors that suspend the fiber in place of blocking its worker.
//!
//! A descriptor is registered with the selector only while a fiber waits for it, by a duplicate: C
//! closes descriptors without a word to Daiko, and the number is then another file's.

use std::ffi::{c_int, c_short, c_void};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use daiko::net::Async;
use daiko::time::Deadline;
use libc::{sockaddr, socklen_t, timespec};

use crate::answer::wait;
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed};

/// Returns the code of the last system call of this thread.
fn last_code() -> Code {
    code(&io::Error::last_os_error())
}

fn code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::Unsupported => libc::EOPNOTSUPP,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    }
}

/// Makes the descriptor non-blocking, if it is not.
fn set_nonblocking(fd: RawFd) -> Result<(), Code> {
    // SAFETY: the call uses no memory of the caller.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(last_code());
    }
    if flags & libc::O_NONBLOCK != 0 {
        return Ok(());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(last_code()),
    }
}

/// Returns the events among `events`, and errors, that have come.
fn poll_now(fd: RawFd, events: c_short) -> io::Result<c_short> {
    let mut polled = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one element is there for the call.
    match unsafe { libc::poll(&mut polled, 1, 0) } {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        1 if polled.revents & libc::POLLNVAL != 0 => Err(io::Error::from_raw_os_error(libc::EBADF)),
        1 => Ok(polled.revents),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until one of `events`, which are all of one direction, has come.
fn await_events(fd: RawFd, events: c_short, deadline: Deadline) -> Result<c_short, Code> {
    if fd < 0 {
        // A poll would skip it.
        return Err(libc::EBADF);
    }
    match poll_now(fd, events) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        polled => return polled.map_err(|error| code(&error)),
    }
    // SAFETY: by `daiko.h`, the descriptor is open during the call; a poll has found that it is.
    let own: OwnedFd =
        unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(|error| code(&error))?;
    let own = Async::new(own).map_err(|error| code(&error))?;
    let polled = if events & libc::POLLOUT != 0 {
        own.write_with_timeout(deadline, |_| poll_now(fd, events))
    } else {
        own.read_with_timeout(deadline, |_| poll_now(fd, events))
    };
    polled.map_err(|error| code(&error))
}

/// Makes `call` until it would not block.
fn perform(
    fd: c_int,
    events: c_short,
    until: &Passed<timespec>,
    mut call: impl FnMut() -> isize,
) -> Result<usize, Code> {
    let deadline = deadline::named_or_never(until)?;
    set_nonblocking(fd)?;
    loop {
        if let Ok(done) = usize::try_from(call()) {
            return Ok(done);
        }
        match last_code() {
            libc::EAGAIN => drop(await_events(fd, events, deadline)?),
            libc::EINTR => {}
            code => return Err(code),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_read(
    fd: c_int,
    to: *mut c_void,
    len: usize,
    until: Passed<timespec>,
    done: OutPlace<usize>,
) -> Code {
    wait(|| {
        if to.is_null() && len > 0 {
            return Err(libc::EINVAL);
        }
        done.check()?;
        // SAFETY: by `daiko.h`, so many bytes are at `to`.
        done.put(perform(fd, libc::POLLIN, &until, || unsafe { libc::read(fd, to, len) })?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_write(
    fd: c_int,
    from: *const c_void,
    len: usize,
    until: Passed<timespec>,
    done: OutPlace<usize>,
) -> Code {
    wait(|| {
        if from.is_null() && len > 0 {
            return Err(libc::EINVAL);
        }
        done.check()?;
        // SAFETY: by `daiko.h`, so many bytes are at `from`.
        done.put(perform(fd, libc::POLLOUT, &until, || unsafe { libc::write(fd, from, len) })?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    until: Passed<timespec>,
    accepted: OutPlace<c_int>,
) -> Code {
    wait(|| {
        accepted.check()?;
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: by `daiko.h`, both are NULL, or a length and so many bytes for an address.
        let accept = || unsafe { libc::accept4(fd, address, len, flags) } as isize;
        accepted.put(perform(fd, libc::POLLIN, &until, accept)? as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        if address.is_null() {
            return Err(libc::EINVAL);
        }
        let deadline = deadline::named_or_never(&until)?;
        set_nonblocking(fd)?;
        // SAFETY: by `daiko.h`, so many bytes of an address are there.
        if unsafe { libc::connect(fd, address, len) } == 0 {
            return Ok(());
        }
        match last_code() {
            libc::EINPROGRESS | libc::EINTR => {}
            code => return Err(code),
        }
        await_events(fd, libc::POLLOUT, deadline)?;
        end_of_connect(fd)
    })
}

/// Returns the end of a connect that has come to one.
fn end_of_connect(fd: c_int) -> Result<(), Code> {
    let mut error: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: both places are there for the call, and `len` is the size of the first.
    let asked = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut len,
        )
    };
    match (asked, error) {
        (0, 0) => Ok(()),
        (0, error) => Err(error),
        _ => Err(last_code()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_poll_fd(
    fd: c_int,
    events: c_short,
    until: Passed<timespec>,
    seen: OutPlace<c_short>,
) -> Code {
    wait(|| {
        let deadline = deadline::named_or_never(&until)?;
        if events != libc::POLLIN && events != libc::POLLOUT {
            return Err(libc::EINVAL);
        }
        seen.put_if_wanted(await_events(fd, events, deadline)?);
        Ok(())
    })
}
