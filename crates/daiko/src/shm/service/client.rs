//! Clients, and their slots.

mod call;
mod scout;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytemuck::NoUninit;
use daiko_core::robust::Holder;
use daiko_shm::{Segment, SegmentError};

use self::call::Claimed;
pub use self::call::{Draft, Reply};
use self::scout::Scout;
use super::super::wait::At;
#[cfg(doc)]
use super::ServiceOptions;
use super::{CallError, Service};
use crate::sync::Semaphore;
use daiko_rt::Deadline;

/// The most slots that one client claims.
pub(super) const MOST_SLOTS: usize = 64;

/// Name of a wait in messages.
const WAIT_KIND: &str = "Client::call";

/// Calls a [`Service`]. Any number of fibers and threads may call through one client at the same
/// time.
///
/// A client claims slots of the service as it needs them, up to its
/// [share](ServiceOptions::slots_per_client), and keeps them until it is dropped. A call that
/// finds all of them in use waits in FIFO order.
///
/// Clients of a server that has ended get an error at once, and go on as soon as it is served
/// again.
pub struct Client {
    service: Service,
    /// Numbers of the slots that this client has claimed; `u32::MAX`: none yet.
    slots: [AtomicU32; MOST_SLOTS],
    /// A bit for each of `slots` in which a call may begin, and for which no call waits.
    free: AtomicU64,
    /// Calls that wait for a slot.
    waiting: AtomicU32,
    /// Places in `slots` for the waiting calls, so that no new call overtakes them.
    handed: Mutex<Vec<u32>>,
    /// A permit for each of these places, except for those that the leader was notified of.
    /// Surplus permits mean that it is time to look again.
    looks: Semaphore,
    scout: Scout,
}

impl Client {
    /// Returns a client of the service of this name, which need not be served yet.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn connect(segment: &Segment, name: &str) -> Result<Client, SegmentError> {
        Ok(Self::of(Service::open(segment, name)?))
    }

    /// Returns a client of `service`.
    pub fn of(service: Service) -> Client {
        Client {
            service,
            slots: [const { AtomicU32::new(u32::MAX) }; MOST_SLOTS],
            free: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            handed: Mutex::default(),
            looks: Semaphore::new(0),
            scout: Scout::none(),
        }
    }

    /// Returns the service of this client.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Waits until a process serves it, for at most `timeout`; `None`: without limit.
    ///
    /// A server that makes its segment anew serves another one: [`Segment::is_removed`] tells.
    ///
    /// # Errors
    ///
    /// [`CallError::TimedOut`], [`CallError::Truncated`].
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    pub fn wait_served(&self, timeout: Option<Duration>) -> Result<(), CallError> {
        let (words, segment) = (self.service.words(), self.service.segment());
        let attempt = || match self.service.is_served() {
            _ if segment.is_truncated() => Ok(Err(CallError::Truncated)),
            true => Ok(Ok(())),
            false => Err(()),
        };
        let at = At { segment, listeners: &words.waiting, what: "Client::wait_served" };
        at.anybody(deadline_after(timeout), attempt, |()| self.service.server().is_some())
            .unwrap_or(Err(CallError::TimedOut { taken: false }))
    }

    /// Sends a request, and waits for the reply without limit.
    ///
    /// # Errors
    ///
    /// [`CallError`]
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline]
    pub fn call<Q: NoUninit>(&self, request: &Q) -> Result<Reply<'_>, CallError> {
        self.ask(bytemuck::bytes_of(request), None)
    }

    /// Calls as [`call`](Self::call) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and [`CallError::TimedOut`].
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    #[inline]
    pub fn call_timeout<Q: NoUninit>(
        &self,
        request: &Q,
        timeout: Duration,
    ) -> Result<Reply<'_>, CallError> {
        self.ask(bytemuck::bytes_of(request), Some(timeout))
    }

    /// Calls as [`call_timeout`](Self::call_timeout) does, with any number of bytes; `None`:
    /// without limit.
    ///
    /// # Errors
    ///
    /// As [`call_timeout`](Self::call_timeout), and [`CallError::TooLarge`].
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    pub fn call_bytes(
        &self,
        request: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Reply<'_>, CallError> {
        self.ask(request, timeout)
    }

    /// Returns a slot in which a request can be written in place.
    ///
    /// # Errors
    ///
    /// [`CallError::TimedOut`] if no slot is free within `timeout`, which is also that of the
    /// call; `None`: without limit.
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    pub fn draft(&self, timeout: Option<Duration>) -> Result<Draft<'_>, CallError> {
        Ok(Draft { at: self.claim(timeout)?, timeout })
    }

    #[inline]
    fn ask(&self, request: &[u8], timeout: Option<Duration>) -> Result<Reply<'_>, CallError> {
        let limit = self.service.slot_bytes();
        if request.len() > limit {
            return Err(CallError::TooLarge { bytes: request.len(), limit });
        }
        self.claim(timeout)?.call(request.len(), timeout, |message| message.write(request))
    }

    /// Waits for a slot of this client.
    #[inline]
    fn claim(&self, timeout: Option<Duration>) -> Result<Claimed<'_>, CallError> {
        // A place alone passes through the result, so that the turn stays in registers.
        let index = match self.take_free() {
            Some(index) => index,
            None => self.claim_slow(deadline_after(timeout))?,
        };
        let at = self.slots[index as usize].load(Ordering::Relaxed);
        Ok(Claimed { client: self, index, at })
    }

    /// Returns the place of a free slot.
    #[inline]
    fn take_free(&self) -> Option<u32> {
        // SeqCst, and so the exchange: see `give_back`.
        let mut free = self.free.load(Ordering::SeqCst);
        while free != 0 {
            let lowest = free & free.wrapping_neg();
            let (came, failed) = (Ordering::SeqCst, Ordering::SeqCst);
            match self.free.compare_exchange_weak(free, free & !lowest, came, failed) {
                Ok(_) => return Some(lowest.trailing_zeros()),
                Err(now) => free = now,
            }
        }
        None
    }

    /// Waits for a slot, behind other calls of this client.
    #[cold]
    fn claim_slow(&self, deadline: Deadline) -> Result<u32, CallError> {
        // SeqCst: see `give_back`.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = OnDrop(|| {
            if self.waiting.fetch_sub(1, Ordering::SeqCst) > 1 {
                self.sends_another_scout();
            }
        });
        loop {
            let index = self.take_free().or_else(|| self.take_handed());
            if let Some(index) = index.or_else(|| self.claim_another()) {
                return Ok(index);
            }
            // A free slot that another call takes first uses up time, too.
            if deadline.is_over() {
                return Err(CallError::TimedOut { taken: false });
            }
            if self.begins_to_scout() {
                return self.scouts(deadline);
            }
            let look = self.looks.acquire_until(1, || deadline);
            look.map_err(|_| CallError::TimedOut { taken: false })?.forget();
            let handed = self.handed().pop();
            if let Some(index) = handed {
                return Ok(index);
            }
        }
    }

    /// Puts back a slot that was handed to a call that has left since, or that is meant for the
    /// longest waiter: the permit that comes with it wakes that waiter.
    fn take_handed(&self) -> Option<u32> {
        self.looks.try_acquire(1)?.forget();
        self.handed().pop()
    }

    fn handed(&self) -> MutexGuard<'_, Vec<u32>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims one more slot of the service.
    fn claim_another(&self) -> Option<u32> {
        let mine = self.share();
        let place = mine.iter().position(|slot| slot.load(Ordering::Relaxed) == u32::MAX)?;
        let at = (0..self.service.shape().slots).find(|&at| self.service.claim_slot(at))?;
        let taken = (place..mine.len()).find(|&place| {
            let (relaxed, failed) = (Ordering::Relaxed, Ordering::Relaxed);
            mine[place].compare_exchange(u32::MAX, at, relaxed, failed).is_ok()
        });
        if taken.is_none() {
            self.service.free_slot(at);
        }
        taken.map(|place| place as u32)
    }

    /// Returns the places for as many slots as the client may have.
    fn share(&self) -> &[AtomicU32] {
        &self.slots[..self.service.shape().slots_per_client as usize]
    }

    /// Gives a slot back: to a waiter, or to the next call.
    ///
    /// A waiter counts itself before it looks at the free slots; here the order is the reverse,
    /// all in one total order. So one of the two sides sees the other.
    #[inline]
    fn give_back(&self, index: u32) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            return self.hand_over(index);
        }
        self.free.fetch_or(1 << index, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0
            && let Some(index) = self.take_free()
        {
            self.hand_over(index);
        }
    }

    #[cold]
    fn hand_over(&self, index: u32) {
        self.handed().push(index);
        // The leader has waited longest.
        if !self.tells_scout() {
            self.looks.add_permits(1);
            // A call may have become the leader before there was the permit, and have found none.
            self.tells_scout();
        }
    }

    /// Gives a slot up that a server has in hand: the slot is free once the server has ended.
    fn give_up(&self, index: u32) {
        let at = self.forget(index);
        // The server may have ended with it already, and have notified the waiters while it was
        // still claimed.
        self.service.free_slot(at);
        // It may have been the last slot that other calls wait for.
        self.looks.add_permits(self.waiting.load(Ordering::SeqCst));
    }

    /// Takes a slot from this client's list and returns its number.
    fn forget(&self, index: u32) -> u32 {
        self.slots[index as usize].swap(u32::MAX, Ordering::SeqCst)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let claimed = self.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        claimed.filter(|&at| at != u32::MAX).for_each(|at| self.service.free_slot(at));
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Service {
    /// Claims slot `at` if it is free or belongs to a dead process, and no server has it in hand.
    fn claim_slot(&self, at: u32) -> bool {
        let Some(word) = self.unclaimed(at) else { return false };
        let (claim, me) = (&self.claims()[at as usize], self.segment().me().bits());
        // Acquire: pairs with the Release in `free_slot`.
        let claimed =
            claim.compare_exchange(word, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if claimed {
            self.slot(at).renew();
            // Release: pairs with the Acquire in `Requests::take`.
            self.words().claimed.fetch_add(1, Ordering::Release);
        }
        claimed
    }

    /// Returns the claim of slot `at` if the slot is free or belongs to a dead process, and no
    /// server has it in hand. A server that has it in hand is made to notify when it ends.
    fn unclaimed(&self, at: u32) -> Option<u64> {
        // Before the look at the claim, so that a later client's request is left alone.
        let slot = self.slot(at);
        let seen = slot.seen();
        let word = self.claims()[at as usize].load(Ordering::Relaxed);
        let is_free = Holder::of(word).is_none_or(|holder| self.segment().is_gone(holder));
        (is_free && slot.client_has_died(seen, self.mark(at))).then_some(word)
    }

    /// Returns the reason why no process serves it.
    #[cold]
    fn unserved_error(&self) -> CallError {
        if self.segment().is_truncated() { CallError::Truncated } else { CallError::NotServed }
    }

    /// Gives slot `at` up, in which this process has no call under way.
    fn free_slot(&self, at: u32) {
        // Release: pairs with the Acquire in `claim_slot`.
        self.claims()[at as usize].store(0, Ordering::Release);
        self.announce_free_slot();
    }

    /// Makes the waiters for a slot of the service look again.
    pub(super) fn announce_free_slot(&self) {
        // Release: pairs with the Acquire of the waiters for its change.
        self.words().freed.fetch_add(1, Ordering::Release);
        self.segment().ring(&self.words().waiting, None);
    }
}

fn deadline_after(timeout: Option<Duration>) -> Deadline {
    timeout.map_or(Deadline::NEVER, Deadline::after)
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}
