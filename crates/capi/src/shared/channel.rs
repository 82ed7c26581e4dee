//! Channels of segments, with records of a size that C chooses.

use std::ffi::c_char;

use daiko::shm::{Channel, Receiver, Segment, Sender};
use libc::timespec;

use super::end::{
    SharedEnd, close_end, code_of_connect, code_of_recv, code_of_send, give_end, use_end,
};
use super::{How, name};
use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, bytes, bytes_mut, give};

/// `daiko_shared_channel`.
type Records = Channel<[u8]>;

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_channel_open(
    channel: OutPlace<*const Records>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
    record_size: usize,
    capacity: u32,
    senders: u32,
) -> Code {
    answer(|| {
        channel.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let message_bytes = record_size.try_into().map_err(|_| libc::EINVAL)?;
        let options = Channel::options().capacity(capacity).senders(senders);
        let options = options.message_bytes(message_bytes);
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
extern "C" fn daiko_shared_channel_close(channel: Passed<Records>) -> Code {
    answer(|| channel.take().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_sender_connect(
    sender: OutPlace<*const SharedEnd<Sender<[u8]>>>,
    channel: Passed<Records>,
) -> Code {
    answer(|| {
        sender.check()?;
        sender.put(give_end(channel.get()?.sender().map_err(code_of_connect)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_sender_send(
    sender: Passed<SharedEnd<Sender<[u8]>>>,
    record: *const u8,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (deadline, mut sender) = (deadline::named_or_never(&until)?, use_end(&sender)?);
        let record = bytes(record, sender.channel().message_bytes())?;
        sender.send_ref_timeout(record, deadline).map_err(code_of_send)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_sender_trysend(
    sender: Passed<SharedEnd<Sender<[u8]>>>,
    record: *const u8,
) -> Code {
    answer(|| {
        let mut sender = use_end(&sender)?;
        let record = bytes(record, sender.channel().message_bytes())?;
        sender.try_send_ref(record).map_err(code_of_send)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_sender_close(sender: Passed<SharedEnd<Sender<[u8]>>>) -> Code {
    close_end(sender)
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_receiver_connect(
    receiver: OutPlace<*const SharedEnd<Receiver<[u8]>>>,
    channel: Passed<Records>,
) -> Code {
    answer(|| {
        receiver.check()?;
        receiver.put(give_end(channel.get()?.receiver().map_err(code_of_connect)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_receiver_recv(
    receiver: Passed<SharedEnd<Receiver<[u8]>>>,
    record: *mut u8,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (deadline, mut receiver) = (deadline::named_or_never(&until)?, use_end(&receiver)?);
        let record = bytes_mut(record, receiver.channel().message_bytes())?;
        receiver.recv_into_timeout(record, deadline).map_err(code_of_recv)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_receiver_tryrecv(
    receiver: Passed<SharedEnd<Receiver<[u8]>>>,
    record: *mut u8,
) -> Code {
    answer(|| {
        let mut receiver = use_end(&receiver)?;
        let record = bytes_mut(record, receiver.channel().message_bytes())?;
        receiver.try_recv_into(record).map_err(code_of_recv)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_receiver_close(receiver: Passed<SharedEnd<Receiver<[u8]>>>) -> Code {
    close_end(receiver)
}
