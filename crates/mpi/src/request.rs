//! Requests that own their buffers, and messages that a probe has matched.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use daiko::shm::bytemuck::Pod;
use daiko_rt::Deadline;

use crate::comm::{Comm, CommHandle, Envelope, length};
use crate::engine::{CallSite, OwnedRequest, engine};
use crate::error::MpiError;
use crate::gate::InProgress;
use crate::raw;
use crate::table::{ArrivedMessage, OpEnd};

/// A send that has begun. If it is dropped, the message is sent all the same, and its data is freed
/// once MPI does not need it.
#[must_use = "an error of the send is in the result of `wait`"]
pub struct SendRequest<T: Send + 'static> {
    pub(crate) request: OwnedRequest<Vec<T>>,
    pub(crate) deadline: Deadline,
}

impl<T: Send + 'static> SendRequest<T> {
    /// Returns true if MPI does not need the data any more.
    pub fn has_ended(&self) -> bool {
        self.request.has_ended()
    }

    /// Waits until MPI does not need the data any more, and returns it.
    ///
    /// # Errors
    ///
    /// Those of MPI; [`MpiError::TimedOut`] at the deadline of the communicator: the message is
    /// sent all the same, as it is if a cancel unwinds the fiber.
    pub fn wait(mut self) -> Result<Vec<T>, MpiError> {
        self.request.wait(self.deadline)?;
        Ok(self.request.into_buffers())
    }
}

/// A receive that has begun. If it is dropped, it is withdrawn.
#[must_use = "the message is in the result of `wait`"]
pub struct RecvRequest<T: Send + 'static> {
    pub(crate) request: OwnedRequest<Vec<T>>,
    pub(crate) deadline: Deadline,
    /// Keeps the communicator, as the receive waits there.
    pub(crate) _comm: Arc<CommHandle>,
}

impl<T: Send + 'static> RecvRequest<T> {
    /// Returns true if the message has been received.
    pub fn has_ended(&self) -> bool {
        self.request.has_ended()
    }

    /// Waits for the message; returns the buffer, with the message at its beginning.
    ///
    /// # Errors
    ///
    /// As [`Comm::recv`].
    pub fn wait(mut self) -> Result<(Vec<T>, Envelope), MpiError> {
        let end = self.request.wait(self.deadline)?;
        Ok((self.request.into_buffers(), Envelope::of(end.status)))
    }
}

/// A message that [`Comm::probe`] has matched, so that no other receive gets it. If it is dropped,
/// it is received, and lost.
#[must_use = "the message is lost if it is not received"]
pub struct MatchedMessage {
    handle: u64,
    envelope: Envelope,
    site: CallSite,
    deadline: Deadline,
    /// Until the receive has begun.
    operation: ManuallyDrop<InProgress>,
}

impl MatchedMessage {
    pub(crate) fn new(comm: &Comm, end: OpEnd, operation: InProgress) -> Self {
        let envelope = Envelope::of(end.status);
        let site = comm.site("MatchedMessage::recv", Some(envelope.source));
        let (handle, deadline) = (end.message, comm.deadline);
        MatchedMessage { handle, envelope, site, deadline, operation: ManuallyDrop::new(operation) }
    }

    /// Returns the sender, the tag and the length.
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }

    /// Receives the message.
    ///
    /// # Errors
    ///
    /// As [`Comm::recv_vec`].
    pub fn recv<T: Pod + Send>(self) -> Result<(Vec<T>, Envelope), MpiError> {
        let (envelope, deadline, unit) = (self.envelope, self.deadline, size_of::<T>());
        if unit == 0 || !envelope.bytes.is_multiple_of(unit) {
            return Err(MpiError::Length { given: envelope.bytes, unit });
        }
        let count = envelope.bytes / unit;
        // SAFETY: the destructor does not run, so the message is received once.
        let posted = unsafe { ManuallyDrop::new(self).post(vec![T::zeroed(); count]) };
        let mut request = posted?;
        request.wait(deadline)?;
        Ok((request.into_buffers(), envelope))
    }

    /// Begins to receive into `data`, which is as long as the message, and ends the operation.
    ///
    /// # Safety
    ///
    /// It is called once, and nothing of the message is used afterwards.
    unsafe fn post<T: Pod + Send>(
        &mut self,
        data: Vec<T>,
    ) -> Result<OwnedRequest<Vec<T>>, MpiError> {
        // SAFETY: taken once, by this function's contract.
        let _operation = unsafe { ManuallyDrop::take(&mut self.operation) };
        // SAFETY: by this function's contract.
        unsafe { receive_matched(self.site, self.handle, data) }
    }
}

/// Begins to receive a message that was matched into `data`.
///
/// # Safety
///
/// It is called once for the message.
unsafe fn receive_matched<T: Pod + Send>(
    site: CallSite,
    message: u64,
    data: Vec<T>,
) -> Result<OwnedRequest<Vec<T>>, MpiError> {
    let length = length(size_of_val(&data[..]))?;
    // SAFETY: the elements of a vector are on the heap; the message is received once, here.
    let post = |data: &mut Vec<T>, request: &mut u64| unsafe {
        raw::daiko_mpi_imrecv(data.as_mut_ptr().cast(), length, message, request)
    };
    // SAFETY: as above.
    unsafe { OwnedRequest::post(engine(), site, data, post) }
}

/// Receives a message that no receive has wanted.
pub(crate) fn discard(site: CallSite, message: ArrivedMessage) -> Result<(), MpiError> {
    let data = vec![0u8; message.status.bytes as usize];
    // SAFETY: the table has handed the message out once.
    unsafe { receive_matched(site, message.handle, data) }.map(drop)
}

impl Drop for MatchedMessage {
    fn drop(&mut self) {
        // SAFETY: once, at the end. The request keeps the buffer; an error has no receiver.
        drop(unsafe { self.post(vec![0u8; self.envelope.bytes]) });
    }
}

impl<T: Send + 'static> fmt::Debug for SendRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendRequest").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> fmt::Debug for RecvRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvRequest").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

impl fmt::Debug for MatchedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatchedMessage").field("envelope", &self.envelope).finish_non_exhaustive()
    }
}
