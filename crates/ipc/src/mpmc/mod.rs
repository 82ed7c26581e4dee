//! Messages from any process to any process.

mod receiver;
mod sender;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::atomic::{AtomicUsize, Ordering};
use crate::channel::ChannelShape;
use crate::{Bytes, ConnectError, Content, Segment, SegmentError, Shared};
use daiko_core::robust::{Lane, LaneSender, Seat, SeenWord, Slots};

pub use self::receiver::MpmcReceiver;
pub use self::sender::MpmcSender;
use super::ends::{Ends, lives};
use super::gate::Gate;
use super::kind;
use super::placed::{LINES, Placed, Shape, sit_down};
use super::wait::At;

/// A channel for messages of plain data, from many senders to many receivers: fibers and threads of
/// any processes.
///
/// [`sender`](Self::sender) and [`receiver`](Self::receiver) give out ends, which are cloned and
/// shared as needed. Each message goes to one receiver. Each process that sends has a lane of its
/// own, which its senders share, so that no process waits for another one that was stopped or
/// killed in the middle of a message. Messages of one process are taken in the order in which they
/// were sent; between processes a receiver goes round.
///
/// A [`Channel`](super::Channel) with one receiver needs no read-modify-write for a message; this
/// one needs one.
///
/// # Deaths
///
/// * A sent message is received, though its process has died since. A receiver that is killed
///   before its call returns may have taken a message with it, or not; no message goes to two.
/// * If no process has a sender any more, receivers get the remaining messages, and then
///   [`RecvError::Disconnected`](super::RecvError::Disconnected). If there was none yet, they wait.
/// * If no process has a receiver any more, senders get
///   [`SendError::Disconnected`](super::SendError::Disconnected); their sent messages go to later
///   receivers. If there was none yet, they send until the channel is full.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{MpmcChannel, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let jobs = MpmcChannel::<u64>::create(&segment, "jobs", MpmcChannel::options())?;
/// let (sender, receiver) = (jobs.sender()?, jobs.receiver()?);
/// // In other processes, or as here in threads.
/// let workers: Vec<_> = (0..3)
///     .map(|_| {
///         let receiver = receiver.clone();
///         std::thread::spawn(move || receiver.iter().sum::<u64>())
///     })
///     .collect();
/// (1..=1000).for_each(|job| sender.send(job).unwrap());
/// drop(sender);
/// let sum: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
/// assert_eq!(sum, 500_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MpmcChannel<T: ?Sized> {
    placed: Placed<MpmcShape<T>>,
    local: Arc<Local>,
}

/// Options of a [`MpmcChannel`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct MpmcOptions {
    capacity: u32,
    senders: u32,
    receivers: u32,
    message_bytes: u32,
}

impl MpmcOptions {
    /// Sets how many messages of each process can be on the way, at least: 1 to 2^20, rounded up to
    /// a power of two. Default: 64.
    pub fn capacity(mut self, messages: u32) -> Self {
        self.capacity = messages;
        self
    }

    /// Sets how many processes can have senders at a time: 1 to 256. Default: 16.
    pub fn senders(mut self, processes: u32) -> Self {
        self.senders = processes;
        self
    }

    /// Sets how many processes can have receivers at a time: 1 to 256. Default: 16.
    pub fn receivers(mut self, processes: u32) -> Self {
        self.receivers = processes;
        self
    }

    /// Sets how many bytes each message of a `MpmcChannel<[u8]>` has. Default: 0. Other channels
    /// take the size of their type.
    pub fn message_bytes(mut self, bytes: u32) -> Self {
        self.message_bytes = bytes;
        self
    }
}

/// The most processes with receivers.
const MOST_RECEIVERS: u32 = 256;

/// ```text
/// 0      Words
/// 128    seats of the receiving processes, 8 bytes each, on lines of their own
/// ..     lanes, 256 bytes for each sending process
/// ..     slots, of each lane on lines of their own
/// ```
struct MpmcShape<T: ?Sized> {
    lanes: ChannelShape<T>,
    receivers: u32,
}

impl<T: ?Sized> Clone for MpmcShape<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for MpmcShape<T> {}

impl<T: ?Sized> MpmcShape<T> {
    /// Returns the offset of the lanes.
    #[inline]
    fn first_lane(self) -> usize {
        LINES + (self.receivers as usize * size_of::<Seat>()).next_multiple_of(LINES)
    }
}

impl<T: Content + ?Sized> Shape for MpmcShape<T> {
    const KIND: u32 = kind::MPMC_CHANNEL;
    const IS: &'static str = "a channel of many receivers";
    const LIMITS: &'static str =
        "1 to 1048576 messages, and 1 to 256 processes that send or receive";

    fn of([capacity, senders, message_bytes, receivers]: [u32; 4]) -> Option<Self> {
        let lanes = ChannelShape::of([capacity, senders, message_bytes, 0])?;
        (1..=MOST_RECEIVERS).contains(&receivers).then_some(MpmcShape { lanes, receivers })
    }

    fn chosen(self) -> [u32; 4] {
        let ChannelShape { capacity, senders, message_bytes, .. } = self.lanes;
        [capacity, senders, message_bytes, self.receivers]
    }

    fn bytes(self) -> Option<usize> {
        self.lanes.lanes_and_slots()?.checked_add(self.first_lane())
    }

    fn agreed() -> u64 {
        T::agreed()
    }
}

/// The ends, as the processes that have some. On lines of their own.
#[repr(C, align(128))]
struct MpmcWords(Ends);

// SAFETY: atomics, and `Shared` values.
unsafe impl Shared for MpmcWords {}

const _: () = assert!(size_of::<MpmcWords>() == LINES);

/// Private state of this process for a channel.
struct Local {
    /// Held for the time of one attempt, never over a suspension.
    senders: Mutex<LocalSenders>,
    receivers: Mutex<LocalEnds>,
    /// Held by the sender, or the receiver, that waits in the segment; the rest of the process
    /// waits behind it.
    sending: Gate<()>,
    receiving: Gate<()>,
    /// The lane at which the next receiver begins: a hint.
    next_lane: AtomicUsize,
    /// The seat of a receiving process that was seen alive: a hint.
    receiver: AtomicUsize,
}

/// The ends of one kind in this process.
#[derive(Default)]
struct LocalEnds {
    handles: usize,
    /// The place of the process among all, while there are handles.
    place: usize,
}

#[derive(Default)]
struct LocalSenders {
    ends: LocalEnds,
    /// The state of the lane, while there are handles.
    lane: Option<LaneSender>,
}

impl Local {
    fn new() -> Self {
        Local {
            senders: Mutex::default(),
            receivers: Mutex::default(),
            sending: Gate::new(()),
            receiving: Gate::new(()),
            next_lane: AtomicUsize::new(0),
            receiver: AtomicUsize::new(0),
        }
    }
}

fn locked<L>(mutex: &Mutex<L>) -> MutexGuard<'_, L> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MpmcChannel<()> {
    /// Returns the default options.
    pub fn options() -> MpmcOptions {
        MpmcOptions { capacity: 64, senders: 16, receivers: 16, message_bytes: 0 }
    }
}

impl<T: Content + Send + ?Sized> MpmcChannel<T> {
    /// Makes a channel in `segment`, which has no ends yet.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it; [`SegmentError::Impossible`] if
    /// there are to be no messages or more than 2^20, or no processes on a side or more than 256.
    pub fn create(
        segment: &Segment,
        name: &str,
        options: MpmcOptions,
    ) -> Result<Self, SegmentError> {
        Self::of(Placed::create(segment, name, Self::shape(options), |_| ())?, name)
    }

    /// Opens the channel of this name, of any size; as `MpmcChannel<[u8]>`, with messages of any
    /// size.
    ///
    /// # Errors
    ///
    /// If there is none, it is another kind of object, or its messages have another type: one of
    /// another size, alignment or name, modules aside. A type agrees with `[u8]` if the size does.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Self::of(Placed::open(segment, name)?, name)
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
        options: MpmcOptions,
    ) -> Result<Self, SegmentError> {
        let shape = Self::shape(options);
        Self::of(Placed::open_or_create(segment, name, shape, |_| ())?, name)
    }

    fn of(placed: Placed<MpmcShape<T>>, name: &str) -> Result<Self, SegmentError> {
        let local = placed.private(name, Local::new)?;
        Ok(MpmcChannel { placed, local })
    }

    fn shape(options: MpmcOptions) -> Option<MpmcShape<T>> {
        let MpmcOptions { capacity, senders, receivers, message_bytes } = options;
        let lanes = ChannelShape::<T>::with_room(capacity, senders, message_bytes)?;
        MpmcShape::of([lanes.capacity, senders, lanes.message_bytes, receivers])
    }

    /// Returns an end to send into.
    ///
    /// # Errors
    ///
    /// If as many other processes have senders as it was made for.
    pub fn sender(&self) -> Result<MpmcSender<T>, ConnectError> {
        MpmcSender::of(self.clone())
    }

    /// Returns an end to receive from.
    ///
    /// # Errors
    ///
    /// If as many other processes have receivers as it was made for.
    pub fn receiver(&self) -> Result<MpmcReceiver<T>, ConnectError> {
        MpmcReceiver::of(self.clone())
    }
}

impl<T: ?Sized + 'static> MpmcChannel<T> {
    /// Returns how many messages of each process can be on the way.
    pub fn capacity(&self) -> usize {
        self.placed.shape.lanes.capacity as usize
    }

    /// Returns how many bytes each message has.
    pub fn message_bytes(&self) -> usize {
        self.placed.shape.lanes.message_bytes as usize
    }

    #[inline]
    fn segment(&self) -> &Segment {
        self.placed.object.segment()
    }

    #[inline]
    fn ends(&self) -> &Ends {
        let MpmcWords(ends) = self.placed.object.at(0);
        ends
    }

    /// Returns the seats of the receiving processes.
    #[inline]
    fn receivers(&self) -> &[Seat] {
        self.placed.object.slice(LINES, self.placed.shape.receivers as usize)
    }

    #[inline]
    fn lanes(&self) -> &[Lane] {
        let shape = self.placed.shape;
        self.placed.object.slice(shape.first_lane(), shape.lanes.senders as usize)
    }

    /// Returns the slots of each lane.
    #[inline]
    fn slots(&self) -> Slots {
        Slots::new(self.capacity())
    }

    /// Returns true if a live process has a receiver.
    #[inline]
    fn has_receiver(&self) -> bool {
        let (seats, hint) = (self.receivers(), &self.local.receiver);
        let lives = |seat: &Seat| {
            let holder = seat.holder();
            // A sender that always has room is to learn of its death as well.
            holder.inspect(|&holder| self.segment().watch(holder));
            lives(self.segment(), holder)
        };
        if seats.get(hint.load(Ordering::Relaxed)).is_some_and(lives) {
            return true;
        }
        let found = seats.iter().position(lives);
        found.inspect(|&found| hint.store(found, Ordering::Relaxed));
        found.is_some()
    }

    /// Returns true if there were receivers, and all are gone.
    #[inline]
    fn is_refused(&self) -> bool {
        !self.has_receiver()
            && self.ends().had_receiver.load(Ordering::Acquire) != 0
            // One may have come in between.
            && !self.has_receiver()
    }

    /// Returns true if there were senders, and all are gone.
    fn is_deserted(&self) -> bool {
        self.ends().is_deserted(self.segment(), self.lanes())
    }

    /// Returns true if a lane that was `seen` empty is so no more, or the number of processes that
    /// have left is not `left` any more.
    fn has_changed(&self, seen: &[SeenWord], left: u32) -> bool {
        let mut lanes = self.lanes().iter().zip(seen);
        lanes.any(|(lane, &seen)| !lane.is_empty(seen)) || self.ends().left() != left
    }

    /// Returns the receivers' place of waiting.
    fn receiving(&self) -> At<'_> {
        let listeners = &self.ends().receiving;
        At { segment: self.segment(), listeners, operation: "MpmcReceiver::recv" }
    }

    /// Returns the senders' place of waiting.
    fn sending(&self) -> At<'_> {
        let listeners = &self.ends().sending;
        At { segment: self.segment(), listeners, operation: "MpmcSender::send" }
    }

    /// Adds an end of this process; its first one takes one of `seats`.
    fn add_end<'s>(
        &self,
        ends: &mut LocalEnds,
        seats: impl Iterator<Item = &'s Seat> + Clone,
    ) -> Result<(), ConnectError> {
        if ends.handles == 0 {
            ends.place = sit_down(self.segment(), seats).ok_or(ConnectError::Taken)?;
        }
        ends.handles += 1;
        Ok(())
    }
}

impl<T: Content + ?Sized> MpmcChannel<T> {
    /// Returns the message in a slot of lane number `lane`.
    #[inline]
    fn message(&self, lane: usize, slot: usize) -> Bytes<'_> {
        let shape = self.placed.shape;
        let at = shape.first_lane() + shape.lanes.message_at(lane, slot);
        self.placed.object.bytes(at, shape.lanes.message_bytes())
    }
}

impl<T: ?Sized> Clone for MpmcChannel<T> {
    fn clone(&self) -> Self {
        let placed = Placed { object: self.placed.object.clone(), shape: self.placed.shape };
        MpmcChannel { placed, local: Arc::clone(&self.local) }
    }
}

impl<T: ?Sized + 'static> fmt::Debug for MpmcChannel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpmcChannel")
            .field("capacity", &self.capacity())
            .field("message_bytes", &self.message_bytes())
            .finish_non_exhaustive()
    }
}
