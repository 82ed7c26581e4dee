//! Objects by their names: how they are made, found, and checked.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Bytes, Object, ObjectSpec, Segment, SegmentError, Shared};
use bytemuck::{Pod, bytes_of};
use daiko_core::doorbell::Listeners;
use daiko_core::robust::{Seat, Take};

/// Processors fetch lines in pairs: words that different processes write lie this far apart.
pub(super) const LINES: usize = 128;

/// Layout of an object, as all its users know it. Taken from the segment once, and checked.
pub(super) trait Shape: Copy + Send + Sync + 'static {
    /// One of the numbers in `kind`.
    const KIND: u32;
    /// Name of such an object in errors.
    const IS: &'static str;
    /// Choices that are possible, for the message about an impossible choice.
    const LIMITS: &'static str = "less";

    /// Returns the chosen shape; `None`: there is none such.
    fn of(chosen: [u32; 4]) -> Option<Self>;

    /// Returns the choices of this shape.
    fn chosen(self) -> [u32; 4];

    /// Returns the bytes of the object; `None`: more than possible.
    fn bytes(self) -> Option<usize>;

    /// Hash that makers and users have to agree upon: [`agreed`] of a type, or 0, which agrees with
    /// each type of the same size.
    fn agreed() -> u64 {
        0
    }
}

/// An object with a shape that is known to fit.
#[derive(Clone, Debug)]
pub(super) struct Placed<S> {
    pub(super) object: Object,
    pub(super) shape: S,
}

impl<S: Shape> Placed<S> {
    /// Makes the object; `init` is given its memory, zeroed, before any process can find it.
    /// `None`: the choices make no shape.
    pub(super) fn create(
        segment: &Segment,
        name: &str,
        shape: impl Into<Option<S>>,
        init: impl FnOnce(&Object),
    ) -> Result<Self, SegmentError> {
        let (shape, bytes) = Self::possible(shape.into())?;
        let (kind, agreed, chosen) = (S::KIND, S::agreed(), shape.chosen());
        let spec = ObjectSpec { kind, bytes, agreed, chosen };
        // SAFETY: a kind belongs to one type of this module, which has the same fields at the same
        // offsets wherever it finds the object. No other crate accesses objects of these kinds.
        let object = unsafe { segment.make_object(name, spec, init)? };
        Ok(Placed { object, shape })
    }

    /// Opens the object of this name, with any choices.
    pub(super) fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        // SAFETY: as in `create`. The object has this kind, and the shape that its maker chose.
        let object = unsafe { segment.object(name, S::IS, |spec| Self::shape(spec).map(drop))? };
        let shape = Self::shape(object.spec()).expect("it was looked at");
        Ok(Placed { object, shape })
    }

    /// Opens the object of this name, and makes it if there is none. Any number of processes may
    /// do this at once.
    pub(super) fn open_or_create(
        segment: &Segment,
        name: &str,
        shape: impl Into<Option<S>>,
        init: impl FnOnce(&Object),
    ) -> Result<Self, SegmentError> {
        // Also if there is one: a mistake does not wait for the day on which there is none.
        let (shape, _) = Self::possible(shape.into())?;
        match Self::open(segment, name) {
            Err(SegmentError::NoObject { .. }) => match Self::create(segment, name, shape, init) {
                Err(SegmentError::ObjectTaken { .. }) => Self::open(segment, name),
                created => created,
            },
            opened => opened,
        }
    }

    /// Returns a possible shape, and its bytes.
    fn possible(shape: Option<S>) -> Result<(S, usize), SegmentError> {
        let sized = shape.and_then(|shape| Some((shape, shape.bytes()?)));
        sized.ok_or(SegmentError::Impossible { is: S::IS, limits: S::LIMITS })
    }

    fn shape(spec: &ObjectSpec) -> Result<S, &'static str> {
        if spec.kind != S::KIND {
            return Err("kind");
        }
        if spec.agreed != S::agreed() && spec.agreed != 0 && S::agreed() != 0 {
            return Err("type");
        }
        S::of(spec.chosen).filter(|shape| shape.bytes() == Some(spec.bytes)).ok_or("size")
    }

    /// Returns the private state of this process for the object, one for all its handles.
    pub(super) fn private<P: Any + Send + Sync>(
        &self,
        name: &str,
        make: impl FnOnce() -> P,
    ) -> Result<Arc<P>, SegmentError> {
        let other = || SegmentError::Other { name: name.into(), asked: S::IS, differs: "type" };
        self.object.private(make).ok_or_else(other)
    }

    #[inline]
    pub(super) fn segment(&self) -> &Segment {
        self.object.segment()
    }
}

/// Shape of an object that holds one value, behind its words.
pub(super) struct Valued<T, K>(PhantomData<fn() -> (T, K)>);

/// An object that holds one value: its name in errors, and the place of the value.
pub(super) trait ValueKind: 'static {
    const KIND: u32;
    const IS: &'static str;
    /// Offset of the value in bytes.
    const VALUE: usize;
}

impl<T, K> Valued<T, K> {
    pub(super) const fn new() -> Self {
        Valued(PhantomData)
    }
}

impl<T, K> Clone for Valued<T, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, K> Copy for Valued<T, K> {}

impl<T: 'static, K: ValueKind> Shape for Valued<T, K> {
    const KIND: u32 = K::KIND;
    const IS: &'static str = K::IS;

    fn of(_: [u32; 4]) -> Option<Self> {
        Some(Self::new())
    }

    fn chosen(self) -> [u32; 4] {
        [0; 4]
    }

    fn bytes(self) -> Option<usize> {
        K::VALUE.checked_add(size_of::<T>())
    }

    fn agreed() -> u64 {
        agreed::<T>()
    }
}

impl<T: Pod, K: ValueKind> Placed<Valued<T, K>> {
    /// Creates as [`create`](Self::create) does, around `value`.
    pub(super) fn create_around(
        segment: &Segment,
        name: &str,
        value: &T,
    ) -> Result<Self, SegmentError> {
        let init = |object: &Object| value_in::<T, K>(object).write(bytes_of(value));
        Self::create(segment, name, Valued::new(), init)
    }

    /// Opens or creates as [`open_or_create`](Self::open_or_create) does, around `value`.
    pub(super) fn open_or_create_around(
        segment: &Segment,
        name: &str,
        value: &T,
    ) -> Result<Self, SegmentError> {
        let init = |object: &Object| value_in::<T, K>(object).write(bytes_of(value));
        Self::open_or_create(segment, name, Valued::new(), init)
    }

    /// Returns the place of the value.
    #[inline]
    pub(super) fn value(&self) -> Bytes<'_> {
        value_in::<T, K>(&self.object)
    }
}

#[inline]
fn value_in<T, K: ValueKind>(object: &Object) -> Bytes<'_> {
    object.bytes(K::VALUE, size_of::<T>())
}

/// A word or two that all users change, and its listeners, on lines of their own.
#[repr(C, align(128))]
pub(super) struct Waited<W> {
    pub(super) word: W,
    pub(super) waiting: Listeners,
}

// SAFETY: both are; so they are valid beside each other, zeroed too, and are reached by their own
// methods.
unsafe impl<W: Shared> Shared for Waited<W> {}

/// Leaves `seat`; returns false if this process has inherited the handle of its parent, which
/// keeps the seat.
pub(super) fn stand_up(segment: &Segment, seat: &Seat) -> bool {
    let is_own = segment.check_own().is_ok();
    if is_own {
        // A peer that has written to it answers for it.
        let _ = seat.leave(segment.me());
    }
    is_own
}

/// Takes the first of `seats` that no live process has; returns its index.
pub(super) fn sit_down<'s>(
    segment: &Segment,
    seats: impl Iterator<Item = &'s Seat> + Clone,
) -> Option<usize> {
    let take = |seat: &Seat| {
        matches!(seat.take(segment.me(), |holder| segment.is_gone(holder)), Take::Taken { .. })
    };
    // It may belong to a process that has died just now: the kernel is asked if no other is free.
    let inherit = |seat: &Seat| {
        seat.holder().is_some_and(|by| by != segment.me() && segment.has_gone(by)) && take(seat)
    };
    seats.clone().position(take).or_else(|| seats.clone().position(inherit))
}

/// Returns a hash by which two programs check that they mean the same values: size, alignment, and
/// the name of the type without its modules, as they may differ between programs.
///
/// It catches values of another type, though they may have as many bytes. It does not catch a
/// change of fields that keeps the name and the size of the type: such a change needs a new name,
/// of the type or of the object.
pub(super) fn agreed<T>() -> u64 {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let name = std::any::type_name::<T>();
    let parts = name.split_inclusive(|c: char| !is_name(c));
    let bare = parts.flat_map(|part| part.rsplit("::").next().unwrap_or(part).bytes());
    let sizes = [size_of::<T>(), align_of::<T>()];
    fnv(sizes.into_iter().flat_map(|size| (size as u64).to_le_bytes()).chain(bare))
}

/// FNV-1a, of 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::agreed;

    mod here {
        pub(super) struct Order(#[expect(dead_code, reason = "for its size")] u64);
        pub(super) struct Other(#[expect(dead_code, reason = "for its size")] u64);
    }
    mod there {
        pub(super) struct Order(#[expect(dead_code, reason = "for its size")] u64);
    }

    #[test]
    fn types_agree_by_size_alignment_and_bare_name() {
        assert_eq!(agreed::<here::Order>(), agreed::<there::Order>());
        assert_eq!(agreed::<[here::Order; 2]>(), agreed::<[there::Order; 2]>());
        assert_eq!(agreed::<Option<here::Order>>(), agreed::<Option<there::Order>>());
        assert_ne!(agreed::<here::Order>(), agreed::<here::Other>());
        assert_ne!(agreed::<[here::Order; 2]>(), agreed::<[here::Other; 2]>());
        assert_ne!(agreed::<u64>(), agreed::<f64>());
        assert_ne!(agreed::<[u64; 2]>(), agreed::<[u64; 3]>());
        assert_ne!(agreed::<u64>(), agreed::<[u8; 8]>());
    }
}
