//! Leader among the waiting calls of a client: it also waits for a slot of the service.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Client, WAIT_KIND};
use crate::shm::service::CallError;
use crate::shm::wait::{self, At};
use daiko_rt::Deadline;

/// Leader of a client's waiting calls: it looks for slots of the service, while the followers wait
/// behind it for the client's own slots. So a process is woken once for each change, and the
/// followers are served in FIFO order.
///
/// ```text
/// 31         2      1       0
/// | bell + 1 | TOLD | THERE |
/// ```
///
/// 0: no leader. TOLD: a slot of the client's own was handed over, or may have been. The bell is
/// the doorbell that the leader sleeps on.
pub(super) struct Scout(AtomicU32);

impl Scout {
    const THERE: u32 = 1;
    const TOLD: u32 = 2;

    pub(super) const fn none() -> Self {
        Scout(AtomicU32::new(0))
    }

    fn load(&self) -> u32 {
        // SeqCst: a slot is handed over before the leader is notified; the leader announces itself
        // before it looks.
        self.0.load(Ordering::SeqCst)
    }

    /// Becomes the leader, unless there is one.
    fn begins(&self) -> bool {
        self.0.compare_exchange(0, Self::THERE, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Registers the doorbell of the leader, before it looks: it sleeps there if it finds nothing.
    fn listens(&self, bell: Option<usize>) {
        let bell = bell.map_or(0, |bell| bell as u32 + 1);
        self.0.store(bell << 2 | Self::THERE, Ordering::SeqCst);
    }

    fn is_told(&self) -> bool {
        self.load() & Self::TOLD != 0
    }

    /// Notifies the leader, if there is one and it was not notified before; returns the doorbell
    /// to ring.
    fn tell(&self) -> Option<Option<usize>> {
        let told =
            |word| (word & (Self::THERE | Self::TOLD) == Self::THERE).then_some(word | Self::TOLD);
        let was = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, told).ok()?;
        Some((was >> 2).checked_sub(1).map(|bell| bell as usize))
    }

    /// Ends the leader; returns true if it was notified of something that it has not looked at.
    fn ends(&self) -> bool {
        self.0.swap(0, Ordering::SeqCst) & Self::TOLD != 0
    }
}

impl Client {
    /// Becomes the leader, if the client may claim another slot and has no leader yet.
    pub(super) fn begins_to_scout(&self) -> bool {
        self.may_claim_more() && self.scout.begins()
    }

    /// Returns true if the client has fewer slots than its share.
    fn may_claim_more(&self) -> bool {
        self.share().iter().any(|slot| slot.load(Ordering::Relaxed) == u32::MAX)
    }

    /// Notifies the leader that a slot was handed over; returns false if there is none, or it was
    /// notified before.
    pub(super) fn tells_scout(&self) -> bool {
        let Some(bell) = self.scout.tell() else { return false };
        if let Some(bell) = bell {
            self.service.segment().ring_bell(bell, None);
        }
        true
    }

    /// Elects a leader to poll the service if every waiter is waiting for one of the client's own
    /// slots and the service has free slots.
    pub(super) fn sends_another_scout(&self) {
        if self.scout.load() == 0 && self.may_claim_more() {
            self.looks.add_permits(1);
        }
    }

    /// Waits for a slot, of the client's own or another one, as the leader that the caller has
    /// become.
    pub(super) fn scouts(&self, deadline: Deadline) -> Result<u32, CallError> {
        let _ends = super::OnDrop(|| {
            if self.scout.ends() {
                self.looks.add_permits(1);
            }
        });
        let (words, segment) = (self.service.words(), self.service.segment());
        let mut again = false;
        let attempt = || {
            if std::mem::replace(&mut again, true) {
                wait::give_way();
            }
            // After the yield, as a migratable fiber may have gone on elsewhere.
            self.scout.listens(wait::own_bell(segment).map(|bell| bell.number));
            // Acquire: pairs with the Release in `announce_free_slot`.
            let seen = words.freed.load(Ordering::Acquire);
            self.look_for_slot().ok_or(seen)
        };
        let has_changed = |&seen: &u32| {
            let freed = words.freed.load(Ordering::Acquire) != seen;
            freed || self.scout.is_told() || self.service.server().is_none()
        };
        let at = At { segment, listeners: &words.waiting, what: WAIT_KIND };
        at.anybody(deadline, attempt, has_changed)
            .unwrap_or(Err(CallError::TimedOut { taken: false }))
    }

    /// Result of a leader's look: a slot, or that no slot is usable.
    fn look_for_slot(&self) -> Option<Result<u32, CallError>> {
        let handed = || self.handed().pop();
        let found = self.take_free().or_else(handed).or_else(|| self.claim_another());
        let is_served = !self.service.segment().is_truncated() && self.service.server().is_some();
        match found {
            Some(index) => Some(Ok(index)),
            None => (!is_served).then(|| Err(self.service.unserved_error())),
        }
    }
}
