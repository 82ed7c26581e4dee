//! Communicators, and messages between two ranks.

use std::ffi::c_int;
use std::sync::Arc;

use daiko::shm::bytemuck::{NoUninit, Pod, cast_slice, cast_slice_mut};
use daiko_rt::Deadline;

use crate::engine::{CallSite, OwnedRequest, Wanted, engine};
use crate::error::MpiError;
use crate::matching::{ANY, MatchKey};
use crate::raw::{self, RawStatus};
use crate::request::{MatchedMessage, RecvRequest, SendRequest, discard};
use crate::table::{CommSlot, Destination, OpNode};

/// The most that each MPI library accepts.
const MOST_TAG: i32 = 32_767;

/// A group of ranks that exchange messages, apart from those of other communicators.
///
/// Clones are handles of the same communicator. Any thread may use it, and any number at the same
/// time: a fiber that waits is suspended, another thread blocks. Messages are plain data
/// ([`bytemuck`](daiko::shm::bytemuck)), sent as bytes, so all machines need the same byte order.
/// Tags are 0 to 32767.
///
/// ```no_run
/// let mpi = daiko_mpi::init()?;
/// let world = mpi.world().clone();
/// let right = (world.rank() + 1) % world.size();
/// daiko::run(move || {
///     let fibers: Vec<_> = (0..1000u16)
///         .map(|tag| {
///             let world = world.clone();
///             daiko::spawn(move || {
///                 world.send(&[u64::from(tag)], right, tag.into())?;
///                 let mut word = [0u64];
///                 world.recv(&mut word, None, i32::from(tag))?;
///                 assert_eq!(word[0], u64::from(tag));
///                 Ok::<(), daiko_mpi::MpiError>(())
///             })
///         })
///         .collect();
///     fibers.into_iter().try_for_each(|fiber| fiber.join().unwrap())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Comm {
    pub(crate) shared: Arc<CommHandle>,
    pub(crate) deadline: Deadline,
}

#[derive(Debug)]
pub(crate) struct CommHandle {
    pub(crate) handle: u64,
    /// Its number in the engine's table.
    slot: CommSlot,
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

/// The sender, the tag and the length of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The rank of the sender.
    pub source: usize,
    /// The tag.
    pub tag: i32,
    /// The length in bytes.
    pub bytes: usize,
}

impl Envelope {
    pub(crate) fn of(status: RawStatus) -> Self {
        let RawStatus { bytes, source, tag, .. } = status;
        Envelope { source: source as usize, tag, bytes: bytes as usize }
    }
}

/// Checks the length of a buffer in bytes.
pub(crate) fn length(bytes: usize) -> Result<c_int, MpiError> {
    c_int::try_from(bytes).map_err(|_| MpiError::TooLong(bytes))
}

/// Returns a buffer as a receive uses it.
fn buffer<T: Pod>(data: &mut [T]) -> Result<Destination, MpiError> {
    let bytes: &mut [u8] = cast_slice_mut(data);
    Ok(Destination::Buffer(bytes.as_mut_ptr(), length(bytes.len())?))
}

impl Comm {
    pub(crate) fn of_handle(handle: u64) -> Result<Self, MpiError> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the handle is that of a communicator; the call writes to live locals.
        let error =
            engine().call(|| unsafe { raw::daiko_mpi_extent(handle, &mut rank, &mut size) });
        let (rank, size) = (rank as usize, size as usize);
        CallSite { operation: "MPI_Comm_rank", rank, peer: None }.check(error)?;
        let slot = engine().table().add_comm(handle);
        let shared = Arc::new(CommHandle { handle, slot, rank, size });
        Ok(Comm { shared, deadline: Deadline::NEVER })
    }

    /// Returns the caller's number among the ranks.
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// Returns a handle of this communicator with operations that end at a time, a
    /// [`Duration`](std::time::Duration) from now or an [`Instant`](std::time::Instant), with
    /// [`MpiError::TimedOut`].
    ///
    /// - A receive is withdrawn. If a message comes first, it is received.
    /// - The data of a send is copied first. MPI keeps the copy, and the message may still arrive.
    /// - A collective goes on without the caller, as MPI cannot cancel it.
    ///
    /// [`daiko::time::timeout`] and cancels unwind a fiber out of an operation likewise, but for a
    /// [`send`](Self::send) of borrowed data, which is waited for.
    pub fn until(&self, deadline: impl Into<Deadline>) -> Self {
        Comm { shared: self.shared.clone(), deadline: deadline.into() }
    }

    pub(crate) fn site(&self, operation: &'static str, peer: Option<usize>) -> CallSite {
        CallSite { operation, rank: self.rank(), peer }
    }

    pub(crate) fn checked_rank(&self, rank: usize) -> Result<c_int, MpiError> {
        match rank < self.size() {
            true => Ok(rank as c_int),
            false => Err(MpiError::NoSuchRank { rank, size: self.size() }),
        }
    }

    fn checked_tag(tag: i32) -> Result<c_int, MpiError> {
        if (0..=MOST_TAG).contains(&tag) { Ok(tag) } else { Err(MpiError::BadTag(tag)) }
    }

    /// Returns the messages that a receive wants.
    fn wanted(&self, source: Option<usize>, tag: Option<i32>) -> Result<Wanted, MpiError> {
        let source = source.map_or(Ok(ANY), |source| self.checked_rank(source))?;
        let key = MatchKey::new(source, tag.map_or(Ok(ANY), Self::checked_tag)?);
        Ok((self.shared.slot, key))
    }

    /// Sends a message, and waits until MPI no longer needs `data`: it was received, or MPI has
    /// copied it.
    ///
    /// A cancel of the fiber, or a [`timeout`](daiko::time::timeout), has to wait as well: MPI
    /// cannot cancel a send. [`isend`](Self::isend), and a communicator with a
    /// [deadline](Self::until), send data that MPI may keep.
    ///
    /// # Errors
    ///
    /// Those of MPI, and those of [`MpiError`] that tell of a wrong argument.
    ///
    /// # Panics
    ///
    /// If the caller is a fiber inside [`no_suspend`](daiko::no_suspend), or a
    /// [`Poller`](daiko::agent::Poller). So do all operations that wait.
    pub fn send<T: NoUninit>(&self, data: &[T], to: usize, tag: i32) -> Result<(), MpiError> {
        let bytes: &[u8] = cast_slice(data);
        if self.deadline != Deadline::NEVER {
            return self.isend(bytes.to_vec(), to, tag)?.wait().map(drop);
        }
        let site = self.site("Comm::send", Some(to));
        let (length, to, tag) =
            (length(bytes.len())?, self.checked_rank(to)?, Self::checked_tag(tag)?);
        let comm = self.shared.handle;
        // SAFETY: `data` is borrowed until the call returns; the communicator is alive.
        let post = |request: &mut u64| unsafe {
            raw::daiko_mpi_isend(bytes.as_ptr().cast(), length, to, tag, comm, request)
        };
        // SAFETY: as above.
        unsafe { engine().send(site, post) }
    }

    /// Receives a message into `data`, which is filled from its beginning; the [`Envelope`] has the
    /// length. `None` is any source, or any tag.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); those of MPI, for example if the message is longer than `data`,
    /// which then has its beginning.
    pub fn recv<T: Pod>(
        &self,
        data: &mut [T],
        source: impl Into<Option<usize>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<Envelope, MpiError> {
        let source = source.into();
        let site = self.site("Comm::recv", source);
        let (wanted, into) = (self.wanted(source, tag.into())?, buffer(data)?);
        // SAFETY: `data` and the communicator are borrowed until the call returns.
        let (end, _) = unsafe { engine().receive(site, wanted, into, self.deadline)? };
        Ok(Envelope::of(end.status))
    }

    /// Receives a message of any length.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv); [`MpiError::Length`], and the message is lost, if its length is no
    /// multiple of the size of `T`.
    pub fn recv_vec<T: Pod + Send>(
        &self,
        source: impl Into<Option<usize>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<(Vec<T>, Envelope), MpiError> {
        self.probe(source, tag)?.recv()
    }

    /// Sends a message and receives one, at the same time.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send) and [`recv`](Self::recv).
    pub fn sendrecv<S: NoUninit, R: Pod>(
        &self,
        (data, to, send_tag): (&[S], usize, i32),
        (into, source, tag): (&mut [R], Option<usize>, Option<i32>),
    ) -> Result<Envelope, MpiError> {
        let site = self.site("Comm::sendrecv", source);
        let (wanted, into) = (self.wanted(source, tag)?, buffer(into)?);
        let node = OpNode::default();
        // SAFETY: `into` and the communicator are borrowed until the call returns, and the result
        // is dropped in this frame.
        let received = unsafe { engine().lend(site, wanted, into, &node)? };
        self.send(data, to, send_tag)?;
        received.wait(self.deadline).map(|end| Envelope::of(end.status))
    }

    /// Sends `data`, and returns a request to wait for.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn isend<T: NoUninit + Send>(
        &self,
        data: Vec<T>,
        to: usize,
        tag: i32,
    ) -> Result<SendRequest<T>, MpiError> {
        let site = self.site("Comm::isend", Some(to));
        let length = length(size_of_val(&data[..]))?;
        let (to, tag) = (self.checked_rank(to)?, Self::checked_tag(tag)?);
        // SAFETY: the elements of a vector are on the heap; the communicator is alive.
        let post = |data: &mut Vec<T>, request: &mut u64| unsafe {
            let comm = self.shared.handle;
            raw::daiko_mpi_isend(data.as_ptr().cast(), length, to, tag, comm, request)
        };
        // SAFETY: as above.
        let request = unsafe { OwnedRequest::post(engine(), site, data, post)? };
        Ok(SendRequest { request, deadline: self.deadline })
    }

    /// Begins to receive into `data`, and returns a request to wait for.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn irecv<T: Pod + Send>(
        &self,
        data: Vec<T>,
        source: impl Into<Option<usize>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<RecvRequest<T>, MpiError> {
        let (source, tag) = (source.into(), tag.into());
        let site = self.site("Comm::irecv", source);
        let mut data = data;
        let (wanted, into) = (self.wanted(source, tag)?, buffer(&mut data)?);
        // SAFETY: the elements of a vector are on the heap. A communicator lives until its last
        // handle is freed, and the result has one.
        let request = unsafe { OwnedRequest::receive(engine(), site, wanted, into, data)? };
        Ok(RecvRequest { request, deadline: self.deadline, _comm: self.shared.clone() })
    }

    /// Waits for a message without receiving it. No other receive gets it: the result is the way
    /// to receive it.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn probe(
        &self,
        source: impl Into<Option<usize>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<MatchedMessage, MpiError> {
        let source = source.into();
        let site = self.site("Comm::probe", source);
        let wanted = self.wanted(source, tag.into())?;
        // SAFETY: the communicator is borrowed until the call returns, and there is no memory.
        let (end, operation) =
            unsafe { engine().receive(site, wanted, Destination::Handle, self.deadline)? };
        Ok(MatchedMessage::new(self, end, operation))
    }

    /// Makes a communicator of the same ranks. All of them have to call it, in the same order as
    /// other collectives.
    ///
    /// # Errors
    ///
    /// Those of MPI.
    pub fn dup(&self) -> Result<Comm, MpiError> {
        let comm = self.shared.handle;
        let site = self.site("Comm::dup", None);
        // SAFETY: the place is on the heap; the communicator is alive.
        let post = |place: &mut Box<u64>, request: &mut u64| unsafe {
            raw::daiko_mpi_idup(comm, &mut **place, request)
        };
        // SAFETY: as above.
        let mut request = unsafe { OwnedRequest::post(engine(), site, Box::new(0u64), post)? };
        request.wait(self.deadline)?;
        // SAFETY: the request has ended.
        Comm::of_handle(unsafe { raw::daiko_mpi_made(&*request.into_buffers()) })
    }

    /// Makes a communicator for each `colour`, of the ranks that have named it, in the order of
    /// `key`, then of their ranks here. All ranks have to call it; one with no colour gets `None`.
    ///
    /// MPI has no call for it that does not block, so a thread of [`daiko::blocking`] makes it: a
    /// deadline does not end it.
    ///
    /// # Errors
    ///
    /// Those of MPI; [`MpiError::NeedsMultiple`] if MPI lets one thread at a time call it.
    pub fn split(&self, colour: Option<u16>, key: i32) -> Result<Option<Comm>, MpiError> {
        let site = self.site("Comm::split", None);
        let _begun = engine().begin(site)?;
        if engine().is_serialized {
            return Err(MpiError::NeedsMultiple("Comm::split"));
        }
        let (shared, mut made) = (self.shared.clone(), 0);
        let colour = colour.map_or(-1, c_int::from);
        let (error, made) = daiko::blocking(move || {
            // SAFETY: the communicator is alive; the call writes to a live local.
            let error = unsafe { raw::daiko_mpi_split(shared.handle, colour, key, &mut made) };
            (error, made)
        });
        site.check(error)?;
        if made == 0 { Ok(None) } else { Comm::of_handle(made).map(Some) }
    }

    /// Frees a communicator that [`dup`](Self::dup) or [`split`](Self::split) has made. All its
    /// ranks have to call it. Without it, the communicator is freed with MPI.
    ///
    /// # Errors
    ///
    /// Those of MPI; the communicator itself if it has other handles, or receives that have begun.
    pub fn free(self) -> Result<(), FreeError> {
        let site = self.site("Comm::free", None);
        let begun = engine().begin(site).map_err(FreeError::Mpi)?;
        if engine().world == self.shared.handle {
            return Err(FreeError::World);
        }
        let deadline = self.deadline;
        let shared = Arc::try_unwrap(self.shared)
            .map_err(|shared| FreeError::InUse(Comm { shared, deadline }))?;
        // No receive waits, as each has a handle.
        for message in engine().table().remove_comm(shared.slot) {
            discard(site, message).map_err(FreeError::Mpi)?;
        }
        let free = move || {
            // SAFETY: this was the last handle, and no operation borrows it.
            engine().call(|| unsafe { raw::daiko_mpi_free(shared.handle) })
        };
        let error = if engine().is_serialized { free() } else { daiko::blocking(free) };
        drop(begun);
        site.check(error).map_err(FreeError::Mpi)
    }
}

/// A communicator was not freed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FreeError {
    /// It has other handles, or receives that have begun: this is the handle that was to be freed.
    InUse(Comm),
    /// It is the one of all ranks, which MPI frees.
    World,
    /// An error of MPI, or MPI is not in use any more.
    Mpi(MpiError),
}

impl std::fmt::Display for FreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FreeError::InUse(_) => {
                f.write_str("the communicator is in use; drop its clones and requests first")
            }
            FreeError::World => f.write_str("the communicator of all ranks cannot be freed"),
            FreeError::Mpi(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FreeError {}
