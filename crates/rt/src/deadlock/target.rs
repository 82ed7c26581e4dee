//! The target of a fiber's wait.
//!
//! It is always noted: a store before the switch, and one after it, on the line that the switch
//! writes in any case.

use crate::fiber::ControlBlock;

/// The target of a fiber's wait: a kind of object, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitTarget {
    pub(super) kind: WaitKind,
    pub(super) address: usize,
}

/// A kind of thing that fibers wait for.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// No object is noted: a part of the runtime waits, and knows its waker.
    Unknown,
    /// An unpark.
    Park,
    /// The end of the fiber with the control block at the address.
    Join,
    Mutex,
    RwLock,
    Condvar,
    Semaphore,
    Barrier,
    Event,
    Once,
    CancelToken,
    Channel,
    /// The first of several channels.
    Select,
    /// The end of a scope's fibers.
    Scope,
    /// A deadline that never comes.
    Sleep,
    /// A call on another thread.
    Blocking,
    /// A word in memory.
    Watch,
    /// An object of a segment, which another process may have.
    Shared,
    /// The end of a thread of an unmodified program: the address is that of its control block.
    ThreadEnd,
    /// A futex of an unmodified program.
    Futex,
}

impl WaitKind {
    const ALL: [WaitKind; 20] = [
        WaitKind::Unknown,
        WaitKind::Park,
        WaitKind::Join,
        WaitKind::Mutex,
        WaitKind::RwLock,
        WaitKind::Condvar,
        WaitKind::Semaphore,
        WaitKind::Barrier,
        WaitKind::Event,
        WaitKind::Once,
        WaitKind::CancelToken,
        WaitKind::Channel,
        WaitKind::Select,
        WaitKind::Scope,
        WaitKind::Sleep,
        WaitKind::Blocking,
        WaitKind::Watch,
        WaitKind::Shared,
        WaitKind::ThreadEnd,
        WaitKind::Futex,
    ];

    pub(super) fn name(self) -> &'static str {
        KIND_NAMES.split(' ').nth(self as usize).expect("each kind has a name")
    }

    /// Returns true if it comes without any action of fibers or threads of this process.
    pub(super) fn comes_by_itself(self) -> bool {
        use WaitKind::{Blocking, Shared, Sleep, Unknown, Watch};
        matches!(self, Unknown | Sleep | Blocking | Watch | Shared)
    }
}

/// The names of the kinds, in their order.
pub(crate) const KIND_NAMES: &str = "something park join Mutex RwLock Condvar Semaphore Barrier \
                                     Event Once CancelToken channel select scope sleep blocking \
                                     watch shared thread-end futex";

impl WaitTarget {
    const PARK: WaitTarget = WaitTarget { kind: WaitKind::Park, address: 0 };
    /// Bits of an address of user space.
    const ADDRESS: u64 = (1 << 56) - 1;

    pub fn new<T: ?Sized>(kind: WaitKind, object: *const T) -> WaitTarget {
        WaitTarget { kind, address: object.addr() }
    }

    /// Creates a target of a kind with only one object, or with an address that says nothing.
    pub const fn of(kind: WaitKind) -> WaitTarget {
        WaitTarget { kind, address: 0 }
    }

    pub(super) fn packed(self) -> u64 {
        (self.kind as u64) << 56 | self.address as u64 & Self::ADDRESS
    }

    fn unpacked(word: u64) -> WaitTarget {
        let kind = WaitKind::ALL[(word >> 56) as usize];
        WaitTarget { kind, address: (word & Self::ADDRESS) as usize }
    }
}

impl ControlBlock {
    /// Runs `wait`, in which the fiber waits for `target`. Only the fiber.
    #[inline(always)]
    pub fn waiting_for<R>(&self, target: WaitTarget, wait: impl FnOnce() -> R) -> R {
        struct Ended<'f>(&'f ControlBlock);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.target.clear();
            }
        }
        self.moves_to(target);
        let _ended = Ended(self);
        wait()
    }

    /// Notes that the fiber, which waits, waits for `target` from now on. Only the fiber itself, or
    /// the thread that has its node in hand, so that it cannot go on.
    #[inline(always)]
    pub(crate) fn moves_to(&self, target: WaitTarget) {
        self.target.set(target.packed());
    }

    /// Returns the target of the fiber, which is suspended.
    pub(super) fn wait_target(&self) -> WaitTarget {
        // An unpark is not noted: the run state has it.
        match self.state.is_parked() {
            true => WaitTarget::PARK,
            false => WaitTarget::unpacked(self.target.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_kept_in_one_word() {
        let names: Vec<_> = KIND_NAMES.split(' ').collect();
        assert_eq!(names.len(), WaitKind::ALL.len());
        for (index, (kind, name)) in WaitKind::ALL.into_iter().zip(names).enumerate() {
            let target = WaitTarget::new(kind, &kind);
            assert_eq!((kind as usize, kind.name()), (index, name));
            assert_eq!(WaitTarget::unpacked(target.packed()), target);
        }
        assert_eq!(WaitTarget::unpacked(0), WaitTarget::of(WaitKind::Unknown));
    }
}
