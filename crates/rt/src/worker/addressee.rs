//! The worker from which an agent expects an answer, and which has no CPU.
//!
//! Workers are placed by the kernel, unless they are bound. If all CPUs are busy, it may put two
//! workers on one. An agent that polls there for the answer of the other worker keeps the CPU from
//! it, for as long as the preset lets agents poll.

use std::cell::Cell;

/// Time that an agent polls while a worker that it has woken does not run: a wake on another CPU
/// takes less, unless that CPU sleeps deeply.
const PATIENCE_NS: u64 = 10_000;
/// Number of decisions without such a time, after a worker that did not run within it.
const HURRIED: u32 = 64;

/// The worker to which the owner of this has sent its last message or wake. Only the owner.
#[derive(Default)]
pub(super) struct Addressee {
    /// The index + 1, until that worker is seen to have read the message; 0: none.
    index: Cell<u32>,
    /// Number of next decisions without patience.
    hurried: Cell<u32>,
}

/// The state of a worker from which an answer is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has read the message.
    Reads,
    /// It was woken, and has not run since.
    Woken,
    /// It has not read the message, and was last seen on the CPU of the agent that waits.
    Here,
    /// It has not read the message, and was last seen on another CPU.
    Elsewhere,
}

impl Addressee {
    /// Records that the owner has sent a message to worker `index`, or has woken it.
    #[inline]
    pub(super) fn note(&self, index: u32) {
        self.index.set(index + 1);
    }

    /// Returns true if an agent without work for `idle_ns` keeps its CPU from the worker that is to
    /// answer.
    pub(super) fn is_kept_waiting(
        &self,
        idle_ns: u64,
        progress: impl FnOnce(u32) -> Progress,
    ) -> bool {
        let Some(index) = self.index.get().checked_sub(1) else { return false };
        match progress(index) {
            Progress::Here => return true,
            Progress::Woken => return self.is_overdue(idle_ns),
            Progress::Reads => self.index.set(0),
            Progress::Elsewhere => {}
        }
        false
    }

    /// Returns true if a woken worker should run by now.
    fn is_overdue(&self, idle_ns: u64) -> bool {
        let hurried = self.hurried.get();
        let is_late = idle_ns >= PATIENCE_NS;
        self.hurried.set(if is_late { HURRIED } else { hurried.saturating_sub(1) });
        is_late || hurried > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(addressee: &Addressee, idle_ns: u64, progress: Progress) -> bool {
        addressee.is_kept_waiting(idle_ns, |index| {
            assert_eq!(index, 3);
            progress
        })
    }

    #[test]
    fn an_agent_without_an_addressee_keeps_no_worker_waiting() {
        let none = Addressee::default();
        assert!(!none.is_kept_waiting(u64::MAX, |_| unreachable!("no message was sent")));
    }

    #[test]
    fn a_worker_that_reads_its_mail_is_not_waited_for() {
        let sent = Addressee::default();
        sent.note(3);
        assert!(!waits(&sent, u64::MAX, Progress::Reads));
        assert!(!sent.is_kept_waiting(u64::MAX, |_| unreachable!("the message was read")));
    }

    #[test]
    fn an_agent_leaves_the_cpu_to_its_addressee_at_once() {
        let sent = Addressee::default();
        sent.note(3);
        assert!(!waits(&sent, u64::MAX, Progress::Elsewhere));
        assert!(waits(&sent, 0, Progress::Here));
    }

    #[test]
    fn a_woken_worker_has_some_time_to_come_up_unless_another_was_late() {
        let sent = Addressee::default();
        sent.note(3);
        assert!(!waits(&sent, PATIENCE_NS - 1, Progress::Woken));
        assert!(waits(&sent, PATIENCE_NS, Progress::Woken));
        for _ in 0..HURRIED {
            sent.note(3);
            assert!(waits(&sent, 0, Progress::Woken));
        }
        assert!(!waits(&sent, 0, Progress::Woken));
    }
}
