//! Answers that an idle agent polls for, while the worker that is to send them needs its CPU
//! (`addressee`).

use daiko_sys::cpu;

use super::Worker;
use super::addressee::Progress;
use crate::atomic::Ordering;

impl Worker {
    /// Records the CPU of this worker, the caller's.
    pub(super) fn note_cpu(&self) -> u32 {
        let here = cpu::current() as u32 + 1;
        // Relaxed, here and where it is read: a hint. Rarely stored: other workers read the line.
        if self.cpu.load(Ordering::Relaxed) != here {
            self.cpu.store(here, Ordering::Relaxed);
        }
        here
    }

    /// Records that this worker has sent a message to `to`, or has woken it. Only the owner.
    #[inline]
    pub(super) fn note_addressee(&self, to: &Worker) {
        // Workers of another runtime are not looked at.
        if to.is_of(self.runtime()) {
            self.addressee.note(to.index);
        }
    }

    /// Returns true if this agent, without work for `idle_ns`, keeps its CPU from the worker whose
    /// answer may end that. Only the owner.
    pub(super) fn keeps_addressee_waiting(&self, idle_ns: u64) -> bool {
        let here = self.note_cpu();
        self.addressee.is_kept_waiting(idle_ns, |index| {
            let other = &self.runtime().all_workers()[index as usize];
            // The worker rises as soon as it runs.
            match other.bed.is_woken() {
                true => Progress::Woken,
                false if !other.inbox.has_mail() => Progress::Reads,
                false if other.cpu.load(Ordering::Relaxed) == here => Progress::Here,
                false => Progress::Elsewhere,
            }
        })
    }
}
