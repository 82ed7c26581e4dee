//! Named objects of a segment, as raw memory.

use std::any::Any;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use daiko_sys::memory::copy_racing;

use super::Segment;
use crate::directory::{NoRoom, ObjectSpec, is_name};
use crate::error::{self, SegmentError};

/// A type that may lie in a segment: valid with any bits, and accessed by atomics only.
///
/// # Safety
///
/// Every pattern of bits is a valid value, and all zeros is a sensible one. The type contains no
/// pointers. Its methods touch no memory outside of it and terminate, with any concurrent stores of
/// other processes.
pub unsafe trait Shared {}

// SAFETY: an atomic is valid with any bits; its operations are single accesses.
unsafe impl Shared for crate::atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl Shared for crate::atomic::AtomicU64 {}
// SAFETY: its README states these properties.
unsafe impl Shared for daiko_core::call::CallSlot {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::call::CallMark {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::doorbell::Listeners {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::RobustBarrier {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::BarrierPlace {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::RobustCondvar {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::CondvarEntry {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::RobustEvent {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::Lane {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::RobustMutex {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::RobustPermit {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::Reads {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::RobustRwLock {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::Seat {}
// SAFETY: as above.
unsafe impl Shared for daiko_core::robust::RobustSemaphore {}

/// The initial contents of objects, a page of them.
static ZEROS: [u8; 4096] = [0; 4096];

/// An object in a segment. It keeps the segment mapped.
#[derive(Clone, Debug)]
pub struct Object {
    segment: Segment,
    offset: usize,
    spec: ObjectSpec,
}

impl Segment {
    /// Opens the object of this name, as raw memory for the type of its kind. `fits` checks its
    /// description, including the creator's choices and its size; `is` names the expected kind.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object, or the segment was truncated.
    ///
    /// # Safety
    ///
    /// All handles of the object in this process access each of its bytes in the same way: as a
    /// part of one type at one offset, or as [`Bytes`]. An object whose kind belongs to a type,
    /// such as a lock, is accessed by that type alone.
    ///
    /// ```compile_fail,E0133
    /// let segment = daiko_ipc::Segment::anonymous(1 << 20)?;
    /// let object = segment.object("mutex", "anything", |_| Ok(()))?;
    /// object.bytes(0, 8).write(&[7; 8]);
    /// # Ok::<(), daiko_ipc::SegmentError>(())
    /// ```
    #[doc(hidden)]
    pub unsafe fn object(
        &self,
        name: &str,
        is: &'static str,
        fits: impl Fn(&ObjectSpec) -> Result<(), &'static str>,
    ) -> Result<Object, SegmentError> {
        check_name(name)?;
        let found = self.directory().find(name);
        self.check_whole()?;
        let found = found.ok_or_else(|| SegmentError::NoObject { name: name.into() })?;
        let other = |differs| SegmentError::Other { name: name.into(), asked: is, differs };
        fits(&found.spec).map_err(other)?;
        Ok(Object { segment: self.clone(), offset: found.offset, spec: found.spec })
    }

    /// Creates an object of this name. `init` gets its zeroed memory before any process can find
    /// it.
    ///
    /// # Errors
    ///
    /// If the name exists or is invalid, there is no room for the object, or the segment is locked,
    /// inherited or truncated.
    ///
    /// # Safety
    ///
    /// See [`object`](Self::object).
    #[doc(hidden)]
    pub unsafe fn make_object(
        &self,
        name: &str,
        spec: ObjectSpec,
        init: impl FnOnce(&Object),
    ) -> Result<Object, SegmentError> {
        check_name(name)?;
        self.locked(|_lock| {
            let directory = self.directory();
            if directory.find(name).is_some() {
                return Err(SegmentError::ObjectTaken { name: name.into() });
            }
            let room = directory.room_for(spec.bytes);
            let offset = room.map_err(|none| self.no_room(none, spec.bytes))?;
            let object = Object { segment: self.clone(), offset, spec };
            object.zero();
            init(&object);
            self.check_whole()?;
            directory.enter(name, offset, spec);
            Ok(object)
        })
    }

    fn no_room(&self, none: NoRoom, bytes: usize) -> SegmentError {
        match none {
            NoRoom::Entries => self.full(error::Table::Objects),
            NoRoom::Bytes(free) => SegmentError::NoRoom { path: self.path().into(), bytes, free },
        }
    }
}

fn check_name(name: &str) -> Result<(), SegmentError> {
    is_name(name).then_some(()).ok_or_else(|| SegmentError::Name { name: name.into() })
}

impl Object {
    /// The segment of the object.
    #[inline]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The description by its creator.
    pub fn spec(&self) -> &ObjectSpec {
        &self.spec
    }

    /// The value `offset` bytes behind the object's beginning.
    ///
    /// # Panics
    ///
    /// If it would not lie within the object, or would not be aligned.
    #[inline]
    pub fn at<T: Shared>(&self, offset: usize) -> &T {
        &self.slice::<T>(offset, 1)[0]
    }

    /// `count` values behind `offset`, like [`at`](Self::at).
    ///
    /// # Panics
    ///
    /// If they would not lie within the object, or would not be aligned.
    #[inline]
    pub fn slice<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let bytes = size_of::<T>().checked_mul(count).expect("it was asked for");
        let start = self.range(offset, bytes).cast::<T>();
        assert!(start.is_aligned(), "the content of an object is aligned");
        // SAFETY: within the mapping, which lives as long as `self`, and aligned; valid with any
        // bits by the contract of `Shared`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), count) }
    }

    /// `len` bytes behind `offset`.
    ///
    /// # Panics
    ///
    /// If they would not lie within the object.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> Bytes<'_> {
        Bytes { start: self.range(offset, len), len, segment: PhantomData }
    }

    #[inline]
    fn range(&self, offset: usize, len: usize) -> NonNull<u8> {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.spec.bytes),
            "the content of an object lies within it"
        );
        // SAFETY: the directory has checked that the object lies within the mapping.
        unsafe { self.segment.inner.mapping.start().add(self.offset + offset) }
    }

    /// State of the object that is private to this process. All handles of one attachment share it,
    /// for the life of the attachment. `None` if it was created with another type. It must not
    /// contain a handle of the segment.
    pub fn private<P: Any + Send + Sync>(&self, make: impl FnOnce() -> P) -> Option<Arc<P>> {
        let private = self.segment.inner.private.lock();
        let mut private = private.unwrap_or_else(PoisonError::into_inner);
        let known = private.entry(self.offset).or_insert_with(|| Arc::new(make()));
        Arc::clone(known).downcast().ok()
    }

    fn zero(&self) {
        let all = self.bytes(0, self.spec.bytes);
        for start in (0..all.len()).step_by(ZEROS.len()) {
            let rest = all.behind(start);
            rest.write(&ZEROS[..rest.len().min(ZEROS.len())]);
        }
    }
}

/// Plain bytes in a segment. Other processes may write them at any time, so they are copied, not
/// borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'s> {
    start: NonNull<u8>,
    len: usize,
    segment: PhantomData<&'s Segment>,
}

// SAFETY: the bytes are copied by accesses that may race and assume nothing about the contents.
unsafe impl Send for Bytes<'_> {}
// SAFETY: see Send.
unsafe impl Sync for Bytes<'_> {}

impl<'s> Bytes<'s> {
    /// The number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "a length that was asked for")]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The first `len` bytes.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[inline]
    pub fn first(self, len: usize) -> Bytes<'s> {
        assert!(len <= self.len, "{len} bytes of {}", self.len);
        Bytes { len, ..self }
    }

    /// The bytes from `start` on.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[inline]
    pub fn behind(self, start: usize) -> Bytes<'s> {
        assert!(start <= self.len, "{start} bytes of {}", self.len);
        // SAFETY: within the bytes, as was just checked.
        Bytes { start: unsafe { self.start.add(start) }, len: self.len - start, ..self }
    }

    /// Copies all of `from` to the beginning.
    ///
    /// # Panics
    ///
    /// If there is less room.
    #[inline]
    pub fn write(&self, from: &[u8]) {
        assert!(from.len() <= self.len, "{} bytes into {}", from.len(), self.len);
        // SAFETY: both have at least `from.len()` bytes. They do not overlap, as `from` is a
        // borrowed slice of this process. Threads of this process access the bytes of the segment
        // by this function alone, as the contract of `Segment::object` demands.
        unsafe { copy_racing(from.as_ptr(), self.start.as_ptr(), from.len()) };
    }

    /// Copies the first `to.len()` bytes to `to`.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[inline]
    pub fn read(&self, to: &mut [u8]) {
        assert!(to.len() <= self.len, "{} bytes of {}", to.len(), self.len);
        // SAFETY: `to` is a borrowed slice of so many bytes.
        unsafe { self.first(to.len()).read_all_to(to.as_mut_ptr()) };
    }

    /// Copies all bytes to `to`, which need not be initialised before.
    ///
    /// # Safety
    ///
    /// `to` can be written for [`len`](Self::len) bytes, which lie outside the segment.
    #[inline]
    pub(crate) unsafe fn read_all_to(&self, to: *mut u8) {
        // SAFETY: by this function's contract; for the segment see `write`.
        unsafe { copy_racing(self.start.as_ptr(), to, self.len) };
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = vec![0; self.len];
        self.read(&mut copy);
        copy
    }
}
