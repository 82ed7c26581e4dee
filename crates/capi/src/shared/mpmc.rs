//! Channels of segments for many receivers, with records of a size that C chooses.

use std::ffi::c_char;

use daiko::shm::{MpmcChannel, MpmcReceiver, MpmcSender, Segment};
use libc::timespec;

use super::end::{code_of_connect, code_of_recv, code_of_send};
use super::{How, name};
use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, bytes, bytes_mut, give};

/// `daiko_shared_mpmc`.
type Records = MpmcChannel<[u8]>;

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_open(
    channel: OutPlace<*const Records>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
    record_size: usize,
    capacity: u32,
    senders: u32,
    receivers: u32,
) -> Code {
    answer(|| {
        channel.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let message_bytes = record_size.try_into().map_err(|_| libc::EINVAL)?;
        let options = MpmcChannel::options().capacity(capacity).message_bytes(message_bytes);
        let options = options.senders(senders).receivers(receivers);
        let opened = How::of(how)?.get(
            || Records::open(segment, called),
            || Records::create(segment, called, options),
            || Records::open_or_create(segment, called, options),
        )?;
        if opened.message_bytes() != record_size {
            return Err(libc::EINVAL);
        }
        channel.put(give(opened))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_close(channel: Passed<Records>) -> Code {
    answer(|| channel.take().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_sender_connect(
    sender: OutPlace<*const MpmcSender<[u8]>>,
    channel: Passed<Records>,
) -> Code {
    answer(|| {
        sender.check()?;
        sender.put(give(channel.get()?.sender().map_err(code_of_connect)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_sender_send(
    sender: Passed<MpmcSender<[u8]>>,
    record: *const u8,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (sender, deadline) = (sender.get()?, deadline::named_or_never(&until)?);
        let record = bytes(record, sender.channel().message_bytes())?;
        sender.send_ref_timeout(record, deadline).map_err(code_of_send)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_sender_trysend(
    sender: Passed<MpmcSender<[u8]>>,
    record: *const u8,
) -> Code {
    answer(|| {
        let sender = sender.get()?;
        let record = bytes(record, sender.channel().message_bytes())?;
        sender.try_send_ref(record).map_err(code_of_send)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_sender_close(sender: Passed<MpmcSender<[u8]>>) -> Code {
    answer(|| sender.take().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_receiver_connect(
    receiver: OutPlace<*const MpmcReceiver<[u8]>>,
    channel: Passed<Records>,
) -> Code {
    answer(|| {
        receiver.check()?;
        receiver.put(give(channel.get()?.receiver().map_err(code_of_connect)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_receiver_recv(
    receiver: Passed<MpmcReceiver<[u8]>>,
    record: *mut u8,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (receiver, deadline) = (receiver.get()?, deadline::named_or_never(&until)?);
        let record = bytes_mut(record, receiver.channel().message_bytes())?;
        receiver.recv_into_timeout(record, deadline).map_err(code_of_recv)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_receiver_tryrecv(
    receiver: Passed<MpmcReceiver<[u8]>>,
    record: *mut u8,
) -> Code {
    answer(|| {
        let receiver = receiver.get()?;
        let record = bytes_mut(record, receiver.channel().message_bytes())?;
        receiver.try_recv_into(record).map_err(code_of_recv)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mpmc_receiver_close(receiver: Passed<MpmcReceiver<[u8]>>) -> Code {
    answer(|| receiver.take().map(drop))
}
