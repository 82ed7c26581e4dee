//! `daiko_channel`: a channel of pointers.

use std::ffi::c_void;

use daiko::sync::channel::{
    self, Receiver, RecvTimeoutError, SendTimeoutError, Sender, TryRecvError, TrySendError,
};
use libc::timespec;

use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Parcel, Passed, give};

/// `daiko_channel`: both ends.
pub(crate) struct PointerChannel {
    sender: Sender<Parcel>,
    receiver: Receiver<Parcel>,
}

/// `DAIKO_CHANNEL_UNBOUNDED`.
const UNBOUNDED: usize = usize::MAX;

/// A bound of the capacity, as the buffer is allocated at once.
const MOST: usize = 1 << 28;

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_new(channel: OutPlace<*const PointerChannel>, capacity: usize) -> Code {
    answer(|| {
        channel.check()?;
        let (sender, receiver) = match capacity {
            UNBOUNDED => channel::unbounded(),
            0..=MOST => channel::bounded(capacity),
            _ => return Err(libc::EINVAL),
        };
        channel.put(give(PointerChannel { sender, receiver }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_send(channel: Passed<PointerChannel>, message: *mut c_void) -> Code {
    wait(|| channel.get()?.sender.send(Parcel(message)).map_err(|_| libc::EPIPE))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_recv(
    channel: Passed<PointerChannel>,
    message: OutPlace<*mut c_void>,
) -> Code {
    wait(|| {
        message.check()?;
        message.put(channel.get()?.receiver.recv().map_err(|_| libc::EPIPE)?.0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_send_until(
    channel: Passed<PointerChannel>,
    message: *mut c_void,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let deadline = deadline::named(&until)?;
        channel.get()?.sender.send_timeout(Parcel(message), deadline).map_err(|error| match error {
            SendTimeoutError::Timeout(_) => libc::ETIMEDOUT,
            SendTimeoutError::Disconnected(_) => libc::EPIPE,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_recv_until(
    channel: Passed<PointerChannel>,
    message: OutPlace<*mut c_void>,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        message.check()?;
        let deadline = deadline::named(&until)?;
        let received =
            channel.get()?.receiver.recv_timeout(deadline).map_err(|error| match error {
                RecvTimeoutError::Timeout => libc::ETIMEDOUT,
                RecvTimeoutError::Disconnected => libc::EPIPE,
            });
        message.put(received?.0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_trysend(channel: Passed<PointerChannel>, message: *mut c_void) -> Code {
    answer(|| {
        channel.get()?.sender.try_send(Parcel(message)).map_err(|error| match error {
            TrySendError::Full(_) => libc::EAGAIN,
            TrySendError::Disconnected(_) => libc::EPIPE,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_tryrecv(
    channel: Passed<PointerChannel>,
    message: OutPlace<*mut c_void>,
) -> Code {
    answer(|| {
        message.check()?;
        let received = channel.get()?.receiver.try_recv().map_err(|error| match error {
            TryRecvError::Empty => libc::EAGAIN,
            TryRecvError::Disconnected => libc::EPIPE,
        });
        message.put(received?.0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_close(channel: Passed<PointerChannel>) -> Code {
    answer(|| {
        channel.get()?.receiver.close();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_channel_free(channel: Passed<PointerChannel>) -> Code {
    answer(|| {
        if !channel.is_null() {
            drop(channel.take()?);
        }
        Ok(())
    })
}
