//! Migratable fibers that wait for sockets, while the kernel steers the packets after them:
//! [`Placement::Follow`](crate::Placement::Follow).
//!
//! At a wake-up the policy (`core/place`) is asked, with the waking worker and the worker at the
//! CPU that processed the packet. Once a migratable fiber has settled elsewhere, and its packets
//! with it, its source is registered there as well.
//!
//! Budget: a migratable fiber that is woken where it last ran, and is not held, costs only the
//! question; otherwise one more system call, which reports the CPU that processed the packet.

use std::os::fd::BorrowedFd;

use daiko_core::place::{self, BOUND, Follow, Mobility, WakeTarget};
use daiko_sys::selector::Readiness;
use daiko_sys::steering;

use super::descriptor_state::DescriptorState;
use super::io::Registered;
use daiko_rt::call::InCall;
use daiko_rt::fiber::waiter;
use daiko_rt::wait;
use daiko_rt::worker::{Worker, wake_migratable};

impl Registered {
    /// Wakes the waiter for the edge that the agent of `by` has seen.
    pub(super) fn reports_to_followers(&mut self, by: &Worker, event: Readiness) {
        let Registered { source, fd, follow } = self;
        // SAFETY: open as long as it is registered.
        let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
        let call = InCall::agent(by);
        source.reports(call, event, |waiter| {
            // SAFETY: the waiter was claimed by the caller, and stays until the wake.
            match unsafe { waiter::fiber_of(waiter) } {
                Some(fiber) if fiber.is_migratable() => {
                    wake_migratable(call, by, fiber, |previous| {
                        place_on(by, previous, source, fd, follow)
                    });
                }
                _ => wait::wake(call, Some(waiter)),
            }
        });
    }
}

/// Returns the worker on which a migratable fiber continues. It last ran on worker `previous`, has
/// waited for `source`, and is woken by the agent of `by`.
fn place_on(
    by: &Worker,
    previous: u16,
    source: &DescriptorState,
    fd: BorrowedFd<'_>,
    follow: &mut Follow,
) -> u16 {
    let me = by.index as u16;
    let is_settled = previous == me && !follow.is_held();
    let waker = if is_settled { me } else { interrupted(by, fd).unwrap_or(me) };
    let target = follow.place(waker, previous, BOUND, || {
        match place::wake(Mobility::Migratable, previous.into(), Some(me.into()), by.will_suspend())
        {
            WakeTarget::LifoSlot => me,
            WakeTarget::Inbox(worker) => worker as u16,
        }
    });
    if target == previous && waker == previous && previous != me {
        source.moves_on();
    }
    target
}

/// Returns the worker at the CPU that processed the last packet.
fn interrupted(by: &Worker, fd: BorrowedFd<'_>) -> Option<u16> {
    let cpu = steering::incoming_cpu(fd).ok()??;
    by.runtime().steering.worker_at(cpu)
}
