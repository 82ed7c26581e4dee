//! Requests and replies between processes.

mod client;
mod error;
mod seats;
mod server;

use std::mem::MaybeUninit;

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::{Bytes, Segment, SegmentError, Shared};
use bytemuck::AnyBitPattern;
use daiko_core::call::{CallMark, CallSlot, Ticket};
use daiko_core::doorbell::Listeners;
use daiko_core::robust::Holder;

pub use self::client::{Client, Draft, Reply};
pub use self::error::{CallError, ServeError};
use self::seats::{MAX_SERVERS, SeatWord, Seated};
pub use self::server::{Call, Server, ServerBuilder};
use super::kind;
use super::placed::{LINES, Placed, Shape};

/// A place in a segment where one process, or [several](ServerBuilder::shared), serve the requests
/// of other processes.
///
/// Requests and replies are plain bytes, or values without pointers and padding ([`bytemuck`]), of
/// any size up to that of a slot. A slot belongs to a client for one call: the request lies in it,
/// then the reply. A message of up to 40 bytes travels in the line of its flag.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Client, Segment, Service};
/// use std::time::Duration;
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let service = Service::create(&segment, "double", Service::options())?;
/// let server = service.serve(1, |call| {
///     let asked: u64 = call.read().unwrap_or(0);
///     call.reply(&(2 * asked));
/// })?;
///
/// let client = Client::connect(&segment, "double")?;
/// let answer: u64 = client.call_timeout(&21u64, Duration::from_secs(10))?.read()?;
/// assert_eq!(answer, 42);
/// drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Service {
    placed: Placed<ServiceShape>,
}

/// The most slots of a service.
const MOST_SLOTS: u32 = 4096;

/// Options of a [`Service`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ServiceOptions {
    slots: u32,
    slot_bytes: u32,
    slots_per_client: Option<u32>,
}

impl ServiceOptions {
    /// Sets how many calls can be under way at a time, of all clients together: 1 to 4096.
    /// Default: 64. Each client needs one at least.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Sets the largest message, in bytes. Default: 104, so that a slot takes two lines.
    pub fn slot_bytes(mut self, bytes: u32) -> Self {
        self.slot_bytes = bytes;
        self
    }

    /// Sets how many of the slots one client claims at most: 1 to 64. Default: a sixteenth of
    /// them, so that sixteen clients are served regardless of how many fibers each of them has.
    pub fn slots_per_client(mut self, slots: u32) -> Self {
        self.slots_per_client = Some(slots);
        self
    }

    /// Returns the bytes that the service takes in its segment.
    pub fn bytes(&self) -> usize {
        self.shape().size()
    }

    /// Returns the requested shape, if it is possible.
    fn possible(&self) -> Option<ServiceShape> {
        Some(self.shape()).filter(|shape| shape.is_possible())
    }

    fn shape(&self) -> ServiceShape {
        let share = (self.slots / 16).clamp(1, client::MOST_SLOTS as u32);
        let slots_per_client = self.slots_per_client.unwrap_or(share);
        ServiceShape::new(self.slots, self.slot_bytes, slots_per_client)
    }
}

/// Layout of a service, as all its users know it. Taken from the segment once, and checked.
///
/// ```text
/// 0      Words
/// 256    claims, 8 bytes for each slot
/// ..     marks, a line for each slot
/// ..     slots, each on lines of its own: 24 bytes of words, then the message
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ServiceShape {
    slots: u32,
    slot_bytes: u32,
    slots_per_client: u32,
    /// Offsets of the marks and of the slots, and the distance between slots: computed once.
    first_mark: usize,
    first_slot: usize,
    stride: usize,
}

const SLOT_WORDS: usize = size_of::<CallSlot>();
const _: () = assert!(SLOT_WORDS == 24);

/// State of a service. Written now and then, read at each call: mostly the first line.
#[repr(C, align(128))]
struct ServiceWords {
    /// Threads of the servers.
    servers: Listeners,
    /// Raised when a slot is claimed; by any process.
    claimed: AtomicU32,
    /// Raised when a slot becomes free for all clients; by any process.
    freed: AtomicU32,
    /// Waiters for a free slot.
    waiting: Listeners,
    /// The servers: a `SeatWord` each. Taken under the segment's lock, the first free one first;
    /// left by the server.
    seats: [AtomicU64; MAX_SERVERS],
}

/// Offset of the claims.
const CLAIMS: usize = size_of::<ServiceWords>();
const _: () = assert!(CLAIMS == 2 * LINES);

// SAFETY: atomics, valid for every pattern of bits.
unsafe impl Shared for ServiceWords {}

impl ServiceShape {
    fn new(slots: u32, slot_bytes: u32, slots_per_client: u32) -> Self {
        let lines = |bytes: usize| bytes.next_multiple_of(LINES);
        let first_mark = CLAIMS + lines(size_of::<AtomicU64>() * slots as usize);
        let first_slot = first_mark + lines(size_of::<CallMark>() * slots as usize);
        let stride = lines(SLOT_WORDS + slot_bytes as usize);
        ServiceShape { slots, slot_bytes, slots_per_client, first_mark, first_slot, stride }
    }

    /// # Panics
    ///
    /// If there are not so many slots.
    #[inline]
    fn mark_offset(&self, at: u32) -> usize {
        assert!(at < self.slots, "no such slot");
        self.first_mark + at as usize * size_of::<CallMark>()
    }

    /// # Panics
    ///
    /// As [`mark_offset`](Self::mark_offset).
    #[inline]
    fn slot_offset(&self, at: u32) -> usize {
        assert!(at < self.slots, "no such slot");
        self.first_slot + at as usize * self.stride
    }

    fn size(self) -> usize {
        // Also of an impossible shape.
        self.first_slot.saturating_add((self.slots as usize).saturating_mul(self.stride))
    }

    fn is_possible(self) -> bool {
        (1..=MOST_SLOTS).contains(&self.slots)
            && self.slot_bytes <= i32::MAX as u32
            && (1..=client::MOST_SLOTS as u32).contains(&self.slots_per_client)
    }
}

impl Shape for ServiceShape {
    const KIND: u32 = kind::SERVICE;
    const IS: &'static str = "a service";
    const LIMITS: &'static str =
        "1 to 4096 slots, 1 to 64 of them for each client, of less than 2 GiB each";

    fn of([slots, slot_bytes, slots_per_client, _]: [u32; 4]) -> Option<Self> {
        Some(ServiceShape::new(slots, slot_bytes, slots_per_client))
            .filter(|shape| shape.is_possible())
    }

    fn chosen(self) -> [u32; 4] {
        [self.slots, self.slot_bytes, self.slots_per_client, 0]
    }

    fn bytes(self) -> Option<usize> {
        Some(self.size())
    }
}

impl Service {
    /// Returns the default options.
    pub fn options() -> ServiceOptions {
        ServiceOptions { slots: 64, slot_bytes: 104, slots_per_client: None }
    }

    /// Makes a service in `segment`, without a server yet.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it; [`SegmentError::Impossible`] if the
    /// number of slots is not between 1 and 4096, that of a client between 1 and 64, or a slot has
    /// 2 GiB or more.
    pub fn create(
        segment: &Segment,
        name: &str,
        options: ServiceOptions,
    ) -> Result<Service, SegmentError> {
        Ok(Service { placed: Placed::create(segment, name, options.possible(), |_| ())? })
    }

    /// Opens the service of this name, of any size.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn open(segment: &Segment, name: &str) -> Result<Service, SegmentError> {
        Ok(Service { placed: Placed::open(segment, name)? })
    }

    /// Opens the service of this name, and makes it if there is none. Any number of processes may
    /// do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(
        segment: &Segment,
        name: &str,
        options: ServiceOptions,
    ) -> Result<Service, SegmentError> {
        let placed = Placed::open_or_create(segment, name, options.possible(), |_| ())?;
        Ok(Service { placed })
    }

    /// Returns how many calls can be under way at a time.
    pub fn slots(&self) -> usize {
        self.shape().slots as usize
    }

    /// Returns the size of the largest message, in bytes.
    pub fn slot_bytes(&self) -> usize {
        self.shape().slot_bytes as usize
    }

    /// Returns true if a process serves it now.
    pub fn is_served(&self) -> bool {
        self.server_count() > 0
    }

    /// Returns how many servers it has now: more than one only if they
    /// [share](ServerBuilder::shared) it.
    pub fn server_count(&self) -> usize {
        let seats = (0..MAX_SERVERS as u32).filter_map(|number| self.seated(number));
        // Servers that have died unnoticed are not counted.
        seats
            .inspect(|server| self.segment().watch(server.holder))
            .filter(|server| !self.segment().is_gone(server.holder))
            .count()
    }

    /// Returns a live server, if there is one: the first.
    #[inline]
    fn server(&self) -> Option<Seated> {
        self.seated(0).or_else(|| self.server_behind_first())
    }

    #[cold]
    fn server_behind_first(&self) -> Option<Seated> {
        (1..MAX_SERVERS as u32).find_map(|number| self.seated(number))
    }

    /// Returns the live server in seat `number`, if there is one.
    #[inline]
    fn seated(&self, number: u32) -> Option<Seated> {
        // Acquire: pairs with the Release in `take_seat`: calls of an earlier server in this seat
        // are ended.
        let word = self.words().seats.get(number as usize)?.load(Ordering::Acquire);
        let holder = Holder::of(word)?;
        (!self.segment().is_gone(holder)).then_some(Seated { word: SeatWord(word), holder })
    }

    /// Returns true if `server`, which serves alone, and so from the first seat, is still there.
    #[inline]
    fn is_served_alone_by(&self, server: Seated) -> bool {
        // Acquire: as in `seated`.
        let word = self.words().seats[0].load(Ordering::Acquire);
        word == server.word.0 && !self.segment().is_gone(server.holder)
    }

    /// Returns true if a live server has the call in slot `at` in hand, or may take it.
    fn may_reply(&self, at: u32, ticket: Ticket) -> bool {
        match self.mark(at).server_of(ticket) {
            Some(number) => self.seated(number).is_some(),
            None => self.server().is_some(),
        }
    }

    /// Ends the call in slot `at` if the server that has it in hand is gone. Returns true if it
    /// was.
    fn end_of_server(&self, at: u32, ticket: Ticket) -> bool {
        // The mark comes first: the server that it names has had its seat before.
        let number = self.mark(at).server_of(ticket);
        let is_gone = number.is_some_and(|number| self.seated(number).is_none());
        if is_gone {
            self.slot(at).server_has_died(ticket);
        }
        is_gone
    }

    #[inline]
    fn segment(&self) -> &Segment {
        self.placed.segment()
    }

    #[inline]
    fn shape(&self) -> &ServiceShape {
        &self.placed.shape
    }

    #[inline]
    fn words(&self) -> &ServiceWords {
        self.placed.object.at(0)
    }

    /// Returns the owner of each slot: `Holder` bits, 0: free.
    fn claims(&self) -> &[AtomicU64] {
        self.placed.object.slice(CLAIMS, self.shape().slots as usize)
    }

    /// Returns slot number `at`.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    #[inline]
    fn slot(&self, at: u32) -> &CallSlot {
        self.placed.object.at(self.shape().slot_offset(at))
    }

    /// Returns the mark of the call in slot number `at` that a server has in hand.
    ///
    /// # Panics
    ///
    /// As [`slot`](Self::slot).
    #[inline]
    fn mark(&self, at: u32) -> &CallMark {
        self.placed.object.at(self.shape().mark_offset(at))
    }

    /// Returns the message in slot number `at`.
    ///
    /// # Panics
    ///
    /// As [`slot`](Self::slot).
    #[inline]
    fn message(&self, at: u32) -> Bytes<'_> {
        let offset = self.shape().slot_offset(at) + SLOT_WORDS;
        self.placed.object.bytes(offset, self.slot_bytes())
    }

    /// Returns the value that lies in `bytes` of this service.
    #[inline]
    fn read<T: AnyBitPattern>(&self, bytes: Bytes<'_>) -> Result<T, CallError> {
        if bytes.len() != size_of::<T>() {
            return Err(CallError::Size { expected: size_of::<T>(), found: bytes.len() });
        }
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: there is room for as many bytes, as was just checked.
        unsafe { bytes.read_all_to(value.as_mut_ptr().cast()) };
        if self.segment().is_truncated() {
            return Err(CallError::Truncated);
        }
        // SAFETY: all bytes have been written, and every pattern of bits is valid.
        Ok(unsafe { value.assume_init() })
    }
}
