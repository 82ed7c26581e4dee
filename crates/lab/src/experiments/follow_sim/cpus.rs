//! CPUs: their current activities, and the tasks that wait for them.

use super::steering::Backlog;

/// No task.
pub(super) const NO_TASK: u32 = u32::MAX;

/// Activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing.
    Idle,
    /// Processes a packet; this precedes everything else.
    Interrupt,
    /// Runs the task that has the CPU.
    Task,
    /// Runs other load. Woken tasks preempt it, as under a fair scheduler, which favours tasks that
    /// have slept.
    Other,
}

/// One CPU, without its packets.
pub(super) struct Cpu {
    pub(super) doing: Doing,
    /// Start of the current activity.
    pub(super) since: u64,
    /// The task that has the CPU, if any; an interrupt may have suspended it.
    pub(super) running: u32,
    /// Time that this task still needs for its packet, and time left of its slice.
    pub(super) service_left: u64,
    pub(super) slice_left: u64,
    /// Time that other load still needs.
    pub(super) other_left: u64,
    /// First and last waiting task, and their number.
    first: u32,
    last: u32,
    pub(super) waiting: u32,
}

impl Cpu {
    pub(super) fn new() -> Self {
        Self {
            doing: Doing::Idle,
            since: 0,
            running: NO_TASK,
            service_left: 0,
            slice_left: 0,
            other_left: 0,
            first: NO_TASK,
            last: NO_TASK,
            waiting: 0,
        }
    }

    /// Whether a kernel would treat the CPU as idle: an interrupt is not a task.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.running == NO_TASK && self.waiting == 0 && self.other_left == 0
    }

    /// Appends a task to the queue of waiting tasks.
    #[inline]
    pub(super) fn queue(&mut self, task: u32, next: &mut [u32]) {
        next[task as usize] = NO_TASK;
        if self.waiting == 0 {
            self.first = task;
        } else {
            next[self.last as usize] = task;
        }
        self.last = task;
        self.waiting += 1;
    }

    /// Removes the first waiting task.
    #[inline]
    pub(super) fn unqueue(&mut self, next: &[u32]) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let task = self.first;
        self.first = next[task as usize];
        self.waiting -= 1;
        Some(task)
    }

    /// Charges the time until `now` to the current activity.
    #[inline]
    pub(super) fn account(&mut self, now: u64) {
        let spent = now - self.since;
        self.since = now;
        match self.doing {
            Doing::Idle | Doing::Interrupt => {}
            Doing::Task => {
                self.service_left -= spent;
                self.slice_left -= spent;
            }
            Doing::Other => self.other_left -= spent,
        }
    }

    /// Chooses the next activity. Returns how long it takes if nothing else happens. The caller has
    /// already given the CPU a task if one waits.
    #[inline]
    pub(super) fn choose(&mut self, backlog: &Backlog, interrupt_ns: u64) -> Option<u64> {
        let length;
        (self.doing, length) = if !backlog.is_empty() {
            (Doing::Interrupt, interrupt_ns)
        } else if self.running != NO_TASK {
            (Doing::Task, self.service_left.min(self.slice_left))
        } else if self.other_left > 0 {
            (Doing::Other, self.other_left)
        } else {
            (Doing::Idle, 0)
        };
        (self.doing != Doing::Idle).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_wait_in_turn() {
        let (mut cpu, mut next) = (Cpu::new(), [NO_TASK; 3]);
        assert_eq!(cpu.unqueue(&next), None);
        for task in [2, 0, 1] {
            cpu.queue(task, &mut next);
        }
        assert!(!cpu.is_idle());
        assert_eq!([0; 3].map(|_| cpu.unqueue(&next)), [Some(2), Some(0), Some(1)]);
        cpu.queue(1, &mut next);
        assert_eq!([cpu.unqueue(&next), cpu.unqueue(&next)], [Some(1), None]);
    }

    #[test]
    fn interrupts_come_before_tasks_and_those_before_other_work() {
        let (mut cpu, backlog) = (Cpu::new(), Backlog::new());
        assert_eq!((cpu.choose(&backlog, 7), cpu.doing), (None, Doing::Idle));
        cpu.other_left = 500;
        assert_eq!((cpu.choose(&backlog, 7), cpu.doing), (Some(500), Doing::Other));
        cpu.account(100);
        (cpu.running, cpu.service_left, cpu.slice_left) = (0, 30, 20);
        assert_eq!((cpu.choose(&backlog, 7), cpu.doing), (Some(20), Doing::Task));
        cpu.account(115);
        assert_eq!((cpu.service_left, cpu.slice_left, cpu.other_left), (15, 5, 400));
    }
}
