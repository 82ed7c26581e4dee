//! Futures that fibers and threads poll.
//!
//! `core/notice` has the protocol of the wakes.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::notice::Notice;

use crate::call::{Call, InCall};
use crate::deadline::Deadline;
use crate::deadlock::{WaitKind, WaitTarget};
use crate::wait::{self, Wait, Waiter};
use crate::worker::{self, suspend};

/// Polls `future` until it is ready, and returns its output: between the polls, a fiber suspends,
/// any other thread blocks.
///
/// The future is polled on the caller's stack. It need not be `Send`, and any thread may wake it,
/// at any time. It may be a future of any library. Some of them need a context of that library:
/// those of tokio need [`Handle::enter`] or `daiko::future::with_tokio`.
///
/// The code of the future may call any function of Daiko, also those that suspend: `park`, a lock,
/// a receive, another `block_on`. Then the other futures that are joined within `future` wait as
/// well.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// let squares = (1..=3).map(|i| daiko::spawn(move || i * i)).collect::<Vec<_>>();
/// let sum = daiko::block_on(async {
///     let mut sum = 0;
///     for square in squares {
///         sum += square.await.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 14);
/// # });
/// ```
///
/// A fiber that waits in here is in no report of a deadlock, as any thread may wake it.
///
/// # Cancels
///
/// A [cancel](crate::JoinHandle::cancel), and the end of a timeout around the call, unwind out of
/// the call between two polls, and drop the future where it is. They wait inside a shield.
///
/// # Panics
///
/// If the future panics. If it is not ready inside [`no_suspend`](crate::no_suspend), or in an
/// `agent::Poller`, which would keep its agent from polling.
///
/// [`Handle::enter`]: https://docs.rs/tokio/latest/tokio/runtime/struct.Handle.html#method.enter
#[track_caller]
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    let shared = Arc::new(SharedNotice(Notice::new()));
    let waker = Waker::from(Arc::clone(&shared));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        await_wake(&shared.0);
    }
}

/// The notice of one [`block_on`], which its wakers share.
struct SharedNotice(Notice);

impl Wake for SharedNotice {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        crate::in_call!(|call| wait::wake(call, self.0.notify()));
    }
}

/// Waits until the future has been woken since its last poll began, and begins the next poll. A
/// cancel unwinds.
fn await_wake(notice: &Notice) {
    // SAFETY: used by the caller, in this call.
    let waiter = unsafe { Waiter::caller("block_on") };
    let (id, call) = (waiter.id(), Call::enter());
    let waits = notice.wait(id);
    if waits {
        waiter.wait_for(call.token(), &AtNotice { notice, id }, Deadline::NEVER);
    }
    drop(call);
    if !waits && worker::try_caller().is_some() {
        // A future that wakes itself at each poll leaves the worker to other fibers in between.
        suspend::yield_now();
    }
    notice.begin_poll();
}

/// A wait for a wake.
struct AtNotice<'n> {
    notice: &'n Notice,
    id: WaiterId,
}

impl Wait for AtNotice<'_> {
    fn leave(&self, _: InCall<'_>) -> Unlinked {
        match self.notice.leave(self.id) {
            true => Unlinked::Mine,
            false => Unlinked::AlreadyGone,
        }
    }

    fn note(&self) -> u8 {
        0
    }

    /// The wake is for this future alone, which is dropped.
    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::of(WaitKind::Unknown)
    }
}
