//! Offers: work in the frames of fibers that any worker with nothing else to do may take.

use std::ptr::{self, NonNull};

use daiko_core::queue::{Local, Place, RingIsFull};

use super::state::Offer;
use super::{Worker, current};
use crate::call::InCall;

impl Worker {
    /// Offers work to all workers.
    ///
    /// # Errors
    ///
    /// If there are too many offers.
    ///
    /// # Safety
    ///
    /// A fiber of this worker calls. `offer` stays in place until it was
    /// [taken back](Self::take_offer_back) or the work that a worker has made of it has ended.
    #[inline]
    pub(crate) unsafe fn offer(
        &self,
        call: InCall<'_>,
        offer: NonNull<Offer>,
    ) -> Result<Place, RingIsFull> {
        // SAFETY: by this function's contract.
        let place = unsafe { self.own_offers().offer(offer) }?;
        self.runtime().offer_is_available(call);
        Ok(place)
    }

    /// Takes back an offer that was made on this worker, by the fiber that has made it; returns
    /// false if a worker has it. That fiber may be on another worker by now.
    #[inline]
    pub(crate) fn take_offer_back(&self, place: Place, offer: NonNull<Offer>) -> bool {
        match current() {
            Some(here) if ptr::eq(here, self) => self.own_offers().take_back(place, offer),
            _ => self.offers.steal().take(place, offer),
        }
    }

    /// Begins an offer that a suspended fiber of this worker has made, if there is one; returns
    /// true if it may have got a fiber.
    pub(super) fn begin_own_offer(&self) -> bool {
        self.is_active() && self.begin_offer_of(self)
    }

    /// Begins an offer of any worker in place of the caller, which is about to wait, if there is no
    /// other fiber to run.
    pub(crate) fn begin_any_offer(&self) {
        if self.has_runnable() || !self.is_active() {
            return;
        }
        let all = self.runtime().all_workers();
        let me = self.index as usize;
        let _ = all[me + 1..].iter().chain(&all[..=me]).any(|victim| self.begin_offer_of(victim));
    }

    /// Begins the oldest offer of `victim`; returns true if this worker may have got a fiber.
    ///
    /// A spare worker takes no offers: their callers run them, and a worker that computes for long
    /// seems stuck.
    pub(super) fn begin_offer_of(&self, victim: &Worker) -> bool {
        if self.is_hosted() || self.is_spare() {
            return false;
        }
        let Some(offer) = victim.offers.steal().steal() else { return false };
        // SAFETY: the offer is this worker's now, and its fiber stays in the frame.
        unsafe { (offer.as_ref().begin)(offer, InCall::agent(self), self) };
        true
    }

    /// Returns true if `victim` has work to offer that this worker takes.
    pub(super) fn sees_offer_of(&self, victim: &Worker) -> bool {
        !self.is_spare() && !victim.offers.steal().is_empty()
    }

    /// Returns the owner's end of the offers. Only on this worker's thread.
    #[inline]
    fn own_offers(&self) -> Local<'_, Offer> {
        // SAFETY: only the owner's thread calls it.
        unsafe { self.offers.local() }
    }
}
