//! Operations of all ranks of a communicator.
//!
//! MPI cannot cancel them, so each owns its buffers: a fiber that is cancelled, or runs out of
//! time, goes, and the operation goes on.

use std::ffi::{c_int, c_void};

use daiko::shm::bytemuck::{NoUninit, Pod, Zeroable};

use crate::comm::{Comm, length};
use crate::engine::{OwnedRequest, engine};
use crate::error::MpiError;
use crate::raw;

/// A number that MPI calculates with.
pub trait MpiNumber: Pod + Send + sealed::Datatype {}

mod sealed {
    pub trait Datatype {
        /// The shim's code of MPI's type.
        const CODE: std::ffi::c_int;
    }
}

macro_rules! numbers {
    ($($number:ty = $code:literal),* $(,)?) => {
        $(
            impl sealed::Datatype for $number {
                const CODE: c_int = $code;
            }
            impl MpiNumber for $number {}
        )*
    };
}

numbers! {
    i8 = 1, i16 = 2, i32 = 3, i64 = 4, u8 = 5, u16 = 6, u32 = 7, u64 = 8, f32 = 9, f64 = 10,
}

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// The sum; integers wrap around.
    Sum,
    /// The product; integers wrap around.
    Product,
    /// The smallest number.
    Min,
    /// The largest number.
    Max,
}

/// The data and the result of a collective.
type Buffers<T> = (Vec<T>, Vec<T>);

impl Comm {
    /// Waits until all ranks have called it.
    ///
    /// The collectives of a communicator have to be called by all of its ranks in the same order,
    /// so fibers that are not ordered otherwise use a [`dup`](Self::dup) each.
    ///
    /// # Errors
    ///
    /// Those of MPI; [`MpiError::TimedOut`] at a [deadline](Self::until), and the collective goes
    /// on without the caller. So do all collectives.
    pub fn barrier(&self) -> Result<(), MpiError> {
        // SAFETY: there is no buffer.
        let post = |_: c_int, _: &mut Buffers<u8>, request: &mut u64| unsafe {
            raw::daiko_mpi_ibarrier(self.shared.handle, request)
        };
        // SAFETY: as above.
        unsafe { self.collective("Comm::barrier", 0, (Vec::new(), Vec::new()), post) }.map(drop)
    }

    /// Copies the data of the rank `root` to all other ranks. The length is the same at all ranks.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier); then `data` is unchanged.
    pub fn bcast<T: Pod + Send>(&self, data: &mut [T], root: usize) -> Result<(), MpiError> {
        let root_rank = self.checked_rank(root)?;
        // SAFETY: the data has `bytes` bytes.
        let post = |bytes: c_int, (data, _): &mut Buffers<T>, request: &mut u64| unsafe {
            let data = data.as_mut_ptr().cast();
            raw::daiko_mpi_ibcast(data, bytes, root_rank, self.shared.handle, request)
        };
        let buffers = (data.to_vec(), Vec::new());
        let bytes = size_of_val(data);
        // SAFETY: as above.
        let (received, _) = unsafe { self.collective("Comm::bcast", bytes, buffers, post)? };
        data.copy_from_slice(&received);
        Ok(())
    }

    /// Combines the numbers of all ranks, element by element, for all of them. The length is the
    /// same at all ranks.
    ///
    /// ```no_run
    /// use daiko_mpi::ReduceOp;
    ///
    /// let mpi = daiko_mpi::init()?;
    /// let ranks = mpi.world().allreduce(&[1u64], ReduceOp::Sum)?;
    /// assert_eq!(ranks, [mpi.world().size() as u64]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier).
    pub fn allreduce<T: MpiNumber>(&self, data: &[T], op: ReduceOp) -> Result<Vec<T>, MpiError> {
        let count = length(data.len())?;
        // SAFETY: both buffers have `count` elements of this type.
        let post = |_: c_int, (data, result): &mut Buffers<T>, request: &mut u64| unsafe {
            let (data, result) = pointers(data, result);
            let comm = self.shared.handle;
            raw::daiko_mpi_iallreduce(data, result, count, T::CODE, op as c_int, comm, request)
        };
        let buffers = (data.to_vec(), zeroed(data.len()));
        let bytes = size_of_val(data);
        // SAFETY: as above.
        unsafe { self.collective("Comm::allreduce", bytes, buffers, post) }.map(|(_, all)| all)
    }

    /// Combines the numbers of all ranks as [`allreduce`](Self::allreduce) does, for the rank
    /// `root`; the other ranks get `None`.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier).
    pub fn reduce<T: MpiNumber>(
        &self,
        data: &[T],
        op: ReduceOp,
        root: usize,
    ) -> Result<Option<Vec<T>>, MpiError> {
        let (count, root_rank) = (length(data.len())?, self.checked_rank(root)?);
        // SAFETY: both buffers have `count` elements of this type; only the root has a result.
        let post = |_: c_int, (data, result): &mut Buffers<T>, request: &mut u64| unsafe {
            let (data, result) = pointers(data, result);
            let (comm, op) = (self.shared.handle, op as c_int);
            raw::daiko_mpi_ireduce(data, result, count, T::CODE, op, root_rank, comm, request)
        };
        let is_root = self.rank() == root;
        let buffers = (data.to_vec(), zeroed(if is_root { data.len() } else { 0 }));
        let bytes = size_of_val(data);
        // SAFETY: as above.
        let (_, result) = unsafe { self.collective("Comm::reduce", bytes, buffers, post)? };
        Ok(is_root.then_some(result))
    }

    /// Collects the data of all ranks, in their order, at the rank `root`; the other ranks get
    /// `None`. The length is the same at all ranks.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier).
    pub fn gather<T: Pod + Send>(
        &self,
        data: &[T],
        root: usize,
    ) -> Result<Option<Vec<T>>, MpiError> {
        let root_rank = self.checked_rank(root)?;
        // SAFETY: the data has `bytes` bytes, the result at the root as many for each rank.
        let post = |bytes: c_int, (data, result): &mut Buffers<T>, request: &mut u64| unsafe {
            let (data, result) = pointers(data, result);
            raw::daiko_mpi_igather(data, result, bytes, root_rank, self.shared.handle, request)
        };
        let is_root = self.rank() == root;
        let buffers = (data.to_vec(), zeroed(if is_root { data.len() * self.size() } else { 0 }));
        let bytes = size_of_val(data);
        // SAFETY: as above.
        let (_, result) = unsafe { self.collective("Comm::gather", bytes, buffers, post)? };
        Ok(is_root.then_some(result))
    }

    /// Collects the data of all ranks, in their order, for all of them. The length is the same at
    /// all ranks.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier).
    pub fn allgather<T: Pod + Send>(&self, data: &[T]) -> Result<Vec<T>, MpiError> {
        // SAFETY: the data has `bytes` bytes, the result as many for each rank.
        let post = |bytes: c_int, (data, result): &mut Buffers<T>, request: &mut u64| unsafe {
            let (data, result) = pointers(data, result);
            raw::daiko_mpi_iallgather(data, result, bytes, self.shared.handle, request)
        };
        let buffers = (data.to_vec(), zeroed(data.len() * self.size()));
        let bytes = size_of_val(data);
        // SAFETY: as above.
        unsafe { self.collective("Comm::allgather", bytes, buffers, post) }.map(|(_, all)| all)
    }

    /// Divides the data of the rank `root` among the ranks: each gets as many elements, `count`.
    /// The data of other ranks is not used.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier); [`MpiError::Length`] at the root, unless it has `count`
    /// elements for each rank.
    pub fn scatter<T: Pod + Send>(
        &self,
        data: &[T],
        count: usize,
        root: usize,
    ) -> Result<Vec<T>, MpiError> {
        let root_rank = self.checked_rank(root)?;
        let is_root = self.rank() == root;
        if is_root && data.len() != count * self.size() {
            return Err(MpiError::Length { given: data.len(), unit: count * self.size() });
        }
        // SAFETY: the result has `bytes` bytes, the data at the root as many for each rank.
        let post = |bytes: c_int, (data, result): &mut Buffers<T>, request: &mut u64| unsafe {
            let (data, result) = pointers(data, result);
            raw::daiko_mpi_iscatter(data, result, bytes, root_rank, self.shared.handle, request)
        };
        let buffers = (if is_root { data.to_vec() } else { Vec::new() }, zeroed(count));
        let bytes = count * size_of::<T>();
        // SAFETY: as above.
        unsafe { self.collective("Comm::scatter", bytes, buffers, post) }.map(|(_, part)| part)
    }

    /// Sends a part of the data to each rank, and returns the parts from all of them, in the order
    /// of ranks. All parts have the same length.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier); [`MpiError::Length`] unless the length is a multiple of the
    /// number of ranks.
    pub fn alltoall<T: Pod + Send>(&self, data: &[T]) -> Result<Vec<T>, MpiError> {
        if !data.len().is_multiple_of(self.size()) {
            return Err(MpiError::Length { given: data.len(), unit: self.size() });
        }
        // SAFETY: both buffers have `bytes` bytes for each rank.
        let post = |bytes: c_int, (data, result): &mut Buffers<T>, request: &mut u64| unsafe {
            let (data, result) = pointers(data, result);
            raw::daiko_mpi_ialltoall(data, result, bytes, self.shared.handle, request)
        };
        let buffers = (data.to_vec(), zeroed(data.len()));
        let bytes = size_of_val(data) / self.size();
        // SAFETY: as above.
        unsafe { self.collective("Comm::alltoall", bytes, buffers, post) }.map(|(_, all)| all)
    }

    /// Runs a collective of `bytes` bytes to or from each rank, and returns the buffers.
    ///
    /// # Safety
    ///
    /// The request that `post` leaves in its third argument is new, and uses no memory but that of
    /// the buffers, within their lengths.
    unsafe fn collective<T: NoUninit + Send>(
        &self,
        operation: &'static str,
        bytes: usize,
        buffers: Buffers<T>,
        post: impl FnOnce(c_int, &mut Buffers<T>, &mut u64) -> c_int,
    ) -> Result<Buffers<T>, MpiError> {
        let bytes = length(bytes)?;
        let site = self.site(operation, None);
        let post = |buffers: &mut Buffers<T>, request: &mut u64| post(bytes, buffers, request);
        // SAFETY: by this function's contract; the elements of vectors are on the heap.
        let posted = unsafe { OwnedRequest::post(engine(), site, buffers, post) };
        let mut request = posted?;
        request.wait(self.deadline)?;
        Ok(request.into_buffers())
    }
}

/// Makes a result. It has memory of its own even if it is empty: Open MPI refuses a result at the
/// address of the data.
fn zeroed<T: Zeroable + Clone>(count: usize) -> Vec<T> {
    let mut result = Vec::with_capacity(count.max(1));
    result.resize(count, T::zeroed());
    result
}

fn pointers<T>(data: &[T], result: &mut [T]) -> (*const c_void, *mut c_void) {
    (data.as_ptr().cast(), result.as_mut_ptr().cast())
}
