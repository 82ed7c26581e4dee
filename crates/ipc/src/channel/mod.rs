//! Messages from process to process.

mod content;
mod error;
mod receiver;
mod sender;

use std::fmt;
use std::marker::PhantomData;

use crate::atomic::Ordering;
use crate::{Bytes, Segment, SegmentError, Shared};
use daiko_core::robust::{Lane, Seat, SeenWord, Slots};

pub use self::content::Content;
pub use self::error::{ConnectError, RecvError, SendError};
pub use self::receiver::{Iter, Receiver};
pub use self::sender::Sender;
use super::ends::{Ends, lives};
use super::kind;
use super::placed::{LINES, Placed, Shape};
use super::wait::At;

/// A channel for messages of plain data, from one sender or several to one receiver.
///
/// Each sender has a lane of its own, so that none waits for another that was stopped or killed in
/// the middle of a message. Messages of one sender are received in the order in which they were
/// sent; between senders the receiver goes round.
///
/// # Ends, and their deaths
///
/// [`sender`](Self::sender) and [`receiver`](Self::receiver) give out the ends. An end is free
/// again where it is dropped, and where its process dies: then the next one goes on from there.
///
/// * A sent message is received, though its sender has died since: by the receiver, or by its
///   successor. A message that a receiver has taken and died with is lost.
/// * If the last sender is gone, the receiver gets the remaining messages, and then
///   [`RecvError::Disconnected`]. If there was none yet, it waits. If a sender comes later, it
///   receives again.
/// * If the receiver is gone, senders get [`SendError::Disconnected`]; their sent messages go to
///   the next receiver. If there was none yet, they send until the channel is full.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Channel, RecvError, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let channel = Channel::<[u64; 2]>::create(&segment, "trades", Channel::options().senders(2))?;
/// let mut receiver = channel.receiver()?;
/// let senders: Vec<_> = (0..2)
///     .map(|who| {
///         let mut sender = channel.sender().unwrap();
///         std::thread::spawn(move || (0..1000).for_each(|i| sender.send([who, i]).unwrap()))
///     })
///     .collect();
/// assert_eq!(receiver.iter().count(), 2000);
/// assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
/// senders.into_iter().for_each(|sender| sender.join().unwrap());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Channel<T: ?Sized> {
    placed: Placed<ChannelShape<T>>,
}

/// Options of a [`Channel`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ChannelOptions {
    capacity: u32,
    senders: u32,
    message_bytes: u32,
}

impl ChannelOptions {
    /// Sets how many messages of each sender can be on the way, at least: 1 to 2^20, rounded up to
    /// a power of two. Default: 64.
    pub fn capacity(mut self, messages: u32) -> Self {
        self.capacity = messages;
        self
    }

    /// Sets how many senders there can be at a time: 1 to 256. Default: 1.
    pub fn senders(mut self, senders: u32) -> Self {
        self.senders = senders;
        self
    }

    /// Sets how many bytes each message of a `Channel<[u8]>` has. Default: 0. Other channels take
    /// the size of their type.
    ///
    /// ```
    /// use daiko_ipc::{Channel, Segment};
    ///
    /// let segment = Segment::anonymous(1 << 20)?;
    /// let options = Channel::options().message_bytes(3);
    /// let channel = Channel::<[u8]>::create(&segment, "codes", options)?;
    /// let (mut sender, mut receiver) = (channel.sender()?, channel.receiver()?);
    /// sender.send_ref(b"abc")?;
    /// let mut code = [0; 3];
    /// receiver.recv_into(&mut code[..])?;
    /// assert_eq!(&code, b"abc");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn message_bytes(mut self, bytes: u32) -> Self {
        self.message_bytes = bytes;
        self
    }
}

/// The most messages of a lane.
const MOST_MESSAGES: u32 = 1 << 20;
/// The most lanes.
const MOST_SENDERS: u32 = 256;

/// Layout of a channel, as all its users know it.
///
/// ```text
/// 0      Words
/// 128    lanes, 256 bytes for each sender
/// ..     slots, of each lane on lines of their own
/// ```
pub(crate) struct ChannelShape<T: ?Sized> {
    /// A power of two.
    pub(crate) capacity: u32,
    pub(crate) senders: u32,
    /// The size of `T`, if it has one.
    pub(crate) message_bytes: u32,
    message: PhantomData<fn() -> T>,
}

/// The ends, and the seat of the one receiver.
#[repr(C, align(128))]
struct ChannelWords {
    receiver: Seat,
    ends: Ends,
}

// SAFETY: atomics, and a `Shared` value.
unsafe impl Shared for ChannelWords {}

const _: () = assert!(size_of::<ChannelWords>() == LINES);

impl<T: Content + ?Sized> ChannelShape<T> {
    /// Returns the bytes of a message: a constant, if a type has them.
    #[inline]
    pub(crate) fn message_bytes(self) -> usize {
        T::size(self.message_bytes)
    }

    /// Returns the bytes of a slot: whole words.
    #[inline]
    fn slot(self) -> usize {
        self.message_bytes().max(1).next_multiple_of(8)
    }

    fn stride(self) -> Option<usize> {
        let bytes = (self.capacity as usize).checked_mul(self.slot())?;
        bytes.checked_next_multiple_of(LINES)
    }

    fn lanes(self) -> usize {
        self.senders as usize * size_of::<Lane>()
    }

    /// Returns the bytes of all lanes and their slots; `None`: more than possible.
    pub(crate) fn lanes_and_slots(self) -> Option<usize> {
        self.stride()?.checked_mul(self.senders as usize)?.checked_add(self.lanes())
    }

    /// Returns the bytes between the first lane and the slot of a message.
    #[inline]
    pub(crate) fn message_at(self, lane: usize, slot: usize) -> usize {
        let stride = self.stride().expect("it was checked");
        self.lanes() + lane * stride + slot * self.slot()
    }

    /// Returns the shape with room for `capacity` messages of each sender, rounded up.
    pub(crate) fn with_room(capacity: u32, senders: u32, message_bytes: u32) -> Option<Self> {
        let whole = capacity.checked_next_power_of_two().filter(|_| capacity > 0)?;
        let message_bytes = T::size(message_bytes).try_into().ok()?;
        ChannelShape::of([whole, senders, message_bytes, 0])
    }

    /// Checks that `message` has as many bytes as the messages of the channel.
    #[inline]
    pub(crate) fn check(self, message: &T) {
        let (given, each) = (message.bytes().len(), self.message_bytes());
        assert!(given == each, "daiko: {given} bytes for a channel with messages of {each}");
    }
}

impl<T: ?Sized> Clone for ChannelShape<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for ChannelShape<T> {}

impl<T: Content + ?Sized> Shape for ChannelShape<T> {
    const KIND: u32 = kind::CHANNEL;
    const IS: &'static str = "a channel";
    const LIMITS: &'static str = "1 to 1048576 messages, and 1 to 256 senders";

    fn of([capacity, senders, message_bytes, _]: [u32; 4]) -> Option<Self> {
        let possible = capacity.is_power_of_two()
            && capacity <= MOST_MESSAGES
            && (1..=MOST_SENDERS).contains(&senders)
            && T::size(message_bytes) == message_bytes as usize;
        possible.then_some(ChannelShape { capacity, senders, message_bytes, message: PhantomData })
    }

    fn chosen(self) -> [u32; 4] {
        [self.capacity, self.senders, self.message_bytes, 0]
    }

    fn bytes(self) -> Option<usize> {
        self.lanes_and_slots()?.checked_add(LINES)
    }

    fn agreed() -> u64 {
        T::agreed()
    }
}

impl Channel<()> {
    /// Returns the default options.
    pub fn options() -> ChannelOptions {
        ChannelOptions { capacity: 64, senders: 1, message_bytes: 0 }
    }
}

impl<T: Content + Send + ?Sized> Channel<T> {
    /// Makes a channel in `segment`, which has no ends yet.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it; [`SegmentError::Impossible`] if
    /// there are to be no messages or more than 2^20, or no senders or more than 256.
    pub fn create(
        segment: &Segment,
        name: &str,
        options: ChannelOptions,
    ) -> Result<Self, SegmentError> {
        Ok(Channel { placed: Placed::create(segment, name, Self::shape(options), |_| ())? })
    }

    /// Opens the channel of this name, of any size; as `Channel<[u8]>`, with messages of any size.
    ///
    /// # Errors
    ///
    /// If there is none, it is another kind of object, or its messages have another type: one of
    /// another size, alignment or name, modules aside. A type agrees with `[u8]` if the size does.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Ok(Channel { placed: Placed::open(segment, name)? })
    }

    /// Opens the channel of this name, and makes it if there is none. Any number of processes may
    /// do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(
        segment: &Segment,
        name: &str,
        options: ChannelOptions,
    ) -> Result<Self, SegmentError> {
        let shape = Self::shape(options);
        Ok(Channel { placed: Placed::open_or_create(segment, name, shape, |_| ())? })
    }

    fn shape(options: ChannelOptions) -> Option<ChannelShape<T>> {
        let ChannelOptions { capacity, senders, message_bytes } = options;
        ChannelShape::with_room(capacity, senders, message_bytes)
    }

    /// Returns an end to send into.
    ///
    /// # Errors
    ///
    /// If there are as many senders as it was made for.
    pub fn sender(&self) -> Result<Sender<T>, ConnectError> {
        Sender::of(self.clone())
    }

    /// Returns the end to receive from.
    ///
    /// # Errors
    ///
    /// If there is a receiver already.
    pub fn receiver(&self) -> Result<Receiver<T>, ConnectError> {
        Receiver::of(self.clone())
    }
}

impl<T: ?Sized + 'static> Channel<T> {
    /// Returns how many messages of each sender can be on the way.
    pub fn capacity(&self) -> usize {
        self.placed.shape.capacity as usize
    }

    /// Returns how many senders there can be at a time.
    pub fn senders(&self) -> usize {
        self.placed.shape.senders as usize
    }

    /// Returns how many bytes each message has.
    pub fn message_bytes(&self) -> usize {
        self.placed.shape.message_bytes as usize
    }

    #[inline]
    fn segment(&self) -> &Segment {
        self.placed.object.segment()
    }

    #[inline]
    fn words(&self) -> &ChannelWords {
        self.placed.object.at(0)
    }

    #[inline]
    fn lanes(&self) -> &[Lane] {
        self.placed.object.slice(LINES, self.senders())
    }

    /// Returns the slots of each lane.
    #[inline]
    fn slots(&self) -> Slots {
        Slots::new(self.capacity())
    }

    #[inline]
    fn ends(&self) -> &Ends {
        &self.words().ends
    }

    /// Returns true if there was a receiver, and it is gone.
    #[inline]
    fn is_refused(&self) -> bool {
        let words = self.words();
        let receiver = words.receiver.holder();
        // A sender that always has room is to learn of its death as well.
        receiver.inspect(|&receiver| self.segment().watch(receiver));
        !lives(self.segment(), receiver)
            && words.ends.had_receiver.load(Ordering::Acquire) != 0
            // It may have come in between.
            && !lives(self.segment(), words.receiver.holder())
    }

    /// Returns true if there were senders, and all are gone.
    fn is_deserted(&self) -> bool {
        self.ends().is_deserted(self.segment(), self.lanes())
    }

    /// Returns true if a lane that was `seen` empty is so no more, or the number of ends that have
    /// left is not `left` any more.
    fn has_changed(&self, seen: &[Option<SeenWord>], left: u32) -> bool {
        let mut lanes = self.lanes().iter().zip(seen);
        lanes.any(|(lane, seen)| seen.is_some_and(|seen| !lane.is_empty(seen)))
            || self.ends().left() != left
    }

    /// Returns the receiver's place of waiting.
    fn receiving(&self) -> At<'_> {
        let listeners = &self.ends().receiving;
        At { segment: self.segment(), listeners, operation: "Receiver::recv" }
    }

    /// Returns the senders' place of waiting.
    fn sending(&self) -> At<'_> {
        At { segment: self.segment(), listeners: &self.ends().sending, operation: "Sender::send" }
    }
}

impl<T: Content + ?Sized> Channel<T> {
    /// Returns the message in a slot of lane number `lane`.
    #[inline]
    fn message(&self, lane: usize, slot: usize) -> Bytes<'_> {
        let shape = self.placed.shape;
        let at = LINES + shape.message_at(lane, slot);
        self.placed.object.bytes(at, shape.message_bytes())
    }
}

impl<T: ?Sized> Clone for Channel<T> {
    fn clone(&self) -> Self {
        Channel { placed: Placed { object: self.placed.object.clone(), shape: self.placed.shape } }
    }
}

impl<T: ?Sized + 'static> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("capacity", &self.capacity())
            .field("senders", &self.senders())
            .finish_non_exhaustive()
    }
}
