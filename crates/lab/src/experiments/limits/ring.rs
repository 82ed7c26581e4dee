//! A ring without a scheduler: every thread switches directly to its successor.
//!
//! With `OWN`, each has a thread pointer of its own as well, and the hop writes that of the
//! successor. No thread uses a thread-local.

use std::ptr;
use std::time::Instant;

use super::stacks::Stacks;
use super::switch::{self, Context};
use super::thread_pointer;
use crate::kit::{Failure, Order, Sample};

/// Largest number of 64 KiB stacks that a small machine holds.
pub(super) const MOST_THREADS: usize = 100_000;

/// A thread of the ring. All data that a switch touches, apart from the stack, is on one cache
/// line.
#[repr(C, align(64))]
struct Member {
    context: Context,
    next: *mut Member,
    /// The thread pointer. That of member 0 is the calling thread's; at those of the others lies no
    /// control block, as nothing reads it.
    pointer: usize,
    /// Written by the predecessor, read by this member.
    buffer: u64,
    /// Expected and received datum, if a wrong one was received.
    wrong: Option<(u64, u64)>,
}

impl Member {
    /// Checks and takes the datum of `lap`.
    fn receive(&mut self, lap: u64) -> u64 {
        if self.buffer != lap {
            self.wrong = Some((lap, self.buffer));
        }
        self.buffer
    }
}

/// Sends a new datum `laps` times round `threads` contexts in shuffled order.
pub(super) fn run<const OWN: bool>(threads: usize, laps: u64) -> Result<Sample, Failure> {
    let ring = ContextRing::<OWN>::new(threads)?;
    // The first lap starts the contexts and faults their stacks in.
    ring.circulate(1..=1);
    let start = Instant::now();
    ring.circulate(2..=laps + 1);
    let elapsed = start.elapsed();
    match ring.wrong() {
        Some((expected, found)) => Err(Failure::WrongDatum { expected, found }),
        None => Ok(Sample::timed(laps, laps * threads as u64, elapsed)),
    }
}

/// The members, reached only through raw pointers, as contexts change them while a method of the
/// ring is suspended.
struct ContextRing<const OWN: bool> {
    /// The members. Member 0 is the calling thread, on its own stack.
    members: *mut [Member],
    _stacks: Stacks,
}

impl<const OWN: bool> ContextRing<OWN> {
    fn new(threads: usize) -> Result<Self, Failure> {
        assert!(threads >= 2, "a ring has two threads at least");
        let stacks = Stacks::new(threads)?;
        let context = |index| match index {
            0 => Context::running(),
            // SAFETY: the top is 16-byte aligned, no other context is on this stack, and 64 KiB are
            // enough for `member`.
            _ => unsafe { Context::starting(stacks.top(index), member::<OWN>) },
        };
        let new = |index| Member {
            context: context(index),
            next: ptr::null_mut(),
            pointer: thread_pointer::own(),
            buffer: 0,
            wrong: None,
        };
        let members: *mut [Member] = Box::into_raw((0..threads).map(new).collect());
        let ring = Self { members, _stacks: stacks };
        for (thread, next) in Order::Shuffled.successors(threads).into_iter().enumerate() {
            // SAFETY: `thread` is an index of the members, and none runs yet.
            unsafe {
                let member = ring.member(thread);
                (*member).next = ring.member(next as usize);
                if thread > 0 {
                    (*member).pointer = member.expose_provenance();
                }
            }
        }
        Ok(ring)
    }

    fn member(&self, index: usize) -> *mut Member {
        assert!(index < self.members.len());
        // SAFETY: the index is within the members, by the assertion.
        unsafe { self.members.cast::<Member>().add(index) }
    }

    fn circulate(&self, laps: impl Iterator<Item = u64>) {
        let me = self.member(0);
        for lap in laps {
            // SAFETY: members keep their addresses as long as the ring exists, one context runs at
            // a time, and the successor is starting or suspended in `member`.
            unsafe {
                let next = (*me).next;
                (*next).buffer = lap;
                hop::<OWN>(me, next);
                (*me).receive(lap);
            }
        }
    }

    /// Returns the expected and the received datum of a member that received a wrong one.
    fn wrong(&self) -> Option<(u64, u64)> {
        // SAFETY: the index is valid, and all contexts are suspended.
        (0..self.members.len()).find_map(|index| unsafe { (*self.member(index)).wrong })
    }
}

impl<const OWN: bool> Drop for ContextRing<OWN> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`; the contexts are never resumed again.
        drop(unsafe { Box::from_raw(self.members) });
    }
}

/// Body of every context except the first. It is abandoned where it is suspended, and owns nothing.
unsafe extern "C" fn member<const OWN: bool>(_from: *mut Member, me: *mut Member) -> ! {
    let mut lap = 1;
    loop {
        // SAFETY: see `ContextRing::circulate`.
        unsafe {
            let next = (*me).next;
            (*next).buffer = (*me).receive(lap);
            hop::<OWN>(me, next);
        }
        lap += 1;
    }
}

/// Switches to `next`, and to its thread pointer.
///
/// # Safety
/// As for [`switch::switch`]; with `OWN` also as for [`thread_pointer::write`].
#[inline(always)]
unsafe fn hop<const OWN: bool>(me: *mut Member, next: *mut Member) {
    // SAFETY: the caller vouches for both contexts and for FSGSBASE. Nothing in a ring uses a
    // thread-local, and the context of the calling thread has its own pointer again.
    unsafe {
        if OWN {
            thread_pointer::write((*next).pointer);
        }
        switch::switch(me, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_takes_part_in_every_lap() {
        let ring = ContextRing::<false>::new(50).expect("stacks");
        ring.circulate(1..=7);
        // SAFETY: the index is valid, and all contexts are suspended.
        assert!((0..50).all(|index| unsafe { (*ring.member(index)).buffer } == 7));
        assert_eq!(ring.wrong(), None);
    }

    #[test]
    fn a_wrong_datum_is_seen() {
        let ring = ContextRing::<false>::new(3).expect("stacks");
        ring.circulate(1..=2);
        ring.circulate(4..=4);
        assert_eq!(ring.wrong(), Some((3, 4)));
    }
}
