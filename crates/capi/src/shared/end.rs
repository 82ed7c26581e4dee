//! Handles that one fiber or thread uses at a time, and the codes of a channel.

use daiko::shm::{ConnectError, RecvError, SendError};
use daiko::sync::{Mutex, MutexGuard, TryLockError};

use crate::answer::answer;
use crate::pointer::{Code, Passed, give};

/// An end of a channel, or a party, locked during a call.
pub(super) type SharedEnd<E> = Mutex<E>;

/// Makes a handle of an end.
pub(super) fn give_end<E>(end: E) -> *const SharedEnd<E> {
    give(Mutex::new(end))
}

/// Returns the end, for this call alone.
pub(super) fn use_end<E>(end: &Passed<SharedEnd<E>>) -> Result<MutexGuard<'_, E>, Code> {
    match end.get()?.try_lock() {
        Ok(end) => Ok(end),
        // A cancel has ended a wait, which leaves the end as it was.
        Err(TryLockError::Poisoned(error)) => Ok(error.into_inner()),
        Err(TryLockError::WouldBlock) => Err(libc::EBUSY),
    }
}

/// Closes the end, which no other call may use.
pub(super) fn close_end<E>(end: Passed<SharedEnd<E>>) -> Code {
    answer(|| {
        drop(use_end(&end)?);
        end.take().map(drop)
    })
}

pub(super) fn code_of_connect(error: ConnectError) -> Code {
    match error {
        ConnectError::Taken => libc::EBUSY,
        _ => libc::EBADMSG,
    }
}

pub(super) fn code_of_send(error: SendError) -> Code {
    match error {
        SendError::Full => libc::EAGAIN,
        SendError::TimedOut => libc::ETIMEDOUT,
        SendError::Disconnected => libc::EPIPE,
        SendError::Corrupt => libc::EBADMSG,
        _ => libc::EIO,
    }
}

pub(super) fn code_of_recv(error: RecvError) -> Code {
    match error {
        RecvError::Empty => libc::EAGAIN,
        RecvError::TimedOut => libc::ETIMEDOUT,
        RecvError::Disconnected => libc::EPIPE,
        RecvError::Corrupt => libc::EBADMSG,
        _ => libc::EIO,
    }
}
