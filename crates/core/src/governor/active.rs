//! The number of workers that run, from looks of the monitor.

/// Time over which a lack of CPUs is judged, in nanoseconds.
const JUDGED_NS: u64 = 50_000_000;
/// Time for which a lack of CPUs is taken to last, at first, in nanoseconds.
const LACK_NS: u64 = 1_000_000_000;
/// The same, at most, if the lack comes back each time.
const LONGEST_LACK_NS: u64 = 16_000_000_000;
/// Number of looks with too much work in a row, after which one more worker runs.
const LOOKS_UP: u32 = 2;
/// Number of looks after which one worker fewer runs, if fewer would have done.
const LOOKS_DOWN: u32 = 16;

/// The number of active workers of a runtime. The other workers stand by.
///
/// No more workers are active than there are CPUs for them: by the affinity mask, and by the quota
/// of the control group. If other threads take the CPU away from the workers, or CPU time is to be
/// saved, then no more are active than the work needs.
///
/// # Examples
///
/// ```
/// use daiko_core::governor::{ActiveWorkers, WorkersLook};
///
/// let mut active = ActiveWorkers::new(4, 2, false);
/// assert_eq!(active.count(), 2);
/// let look = WorkersLook { cpus: 3, ..WorkersLook::default() };
/// assert_eq!(active.observe(&look), 3);
/// ```
#[derive(Clone, Debug)]
pub struct ActiveWorkers {
    workers: u32,
    active: u32,
    /// Looks in a row that found too much work.
    excess: u32,
    /// Looks in this window.
    looks: u32,
    /// Sum of the busy workers over these looks.
    busy: u32,
    judged: Judged,
    /// The end of a lack of CPUs; 0: there was none.
    lack_until_ns: u64,
    lack_ns: u64,
}

/// The times over which a lack of CPUs is judged.
#[derive(Clone, Copy, Debug, Default)]
struct Judged {
    since_ns: u64,
    ran_ns: u64,
    delayed_ns: u64,
}

/// A look of the monitor at the workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkersLook {
    /// The time.
    pub now_ns: u64,
    /// Number of CPUs that the affinity mask and the quota leave; fractions are rounded up.
    pub cpus: u32,
    /// True if fibers shall run on as few workers as they need.
    pub concentrates: bool,
    /// Number of workers that run a fiber or have one to run.
    pub busy: u32,
    /// True if a fiber that any worker may run waits for one.
    pub excess: bool,
    /// CPU time that the workers have had since the last look, in nanoseconds.
    pub ran_ns: u64,
    /// Time that the workers waited for a CPU since the last look, in nanoseconds; 0 if the kernel
    /// does not tell.
    pub delayed_ns: u64,
}

impl ActiveWorkers {
    /// Creates the state of `workers` workers on `cpus` CPUs. If fibers shall run on few workers,
    /// one is active at first.
    pub fn new(workers: u32, cpus: u32, concentrates: bool) -> Self {
        let active = if concentrates { 1 } else { limit(workers, cpus) };
        ActiveWorkers {
            workers,
            active,
            excess: 0,
            looks: 0,
            busy: 0,
            judged: Judged::default(),
            lack_until_ns: 0,
            lack_ns: LACK_NS,
        }
    }

    /// Returns the number of active workers: at least one.
    pub fn count(&self) -> u32 {
        self.active
    }

    /// Returns true if other threads keep the workers from their CPUs.
    pub fn lacks_cpus(&self, now_ns: u64) -> bool {
        now_ns < self.lack_until_ns
    }

    /// Takes the look into account; returns the number of active workers from now on.
    pub fn observe(&mut self, look: &WorkersLook) -> u32 {
        self.judge(look);
        let most = limit(self.workers, look.cpus);
        self.active = match look.concentrates || self.lacks_cpus(look.now_ns) {
            true => self.needed(look).clamp(1, most),
            false => most,
        };
        self.active
    }

    /// Takes into account that no worker has run for some time, if fibers shall run on few workers:
    /// the next work begins with one. Returns the number of active workers from now on.
    pub fn rest(&mut self) -> u32 {
        self.begin_window();
        self.active = 1;
        self.active
    }

    /// Judges whether other threads take the CPUs: the workers wait for a fifth of the time in
    /// which they could run.
    fn judge(&mut self, look: &WorkersLook) {
        let judged = &mut self.judged;
        judged.ran_ns += look.ran_ns;
        judged.delayed_ns += look.delayed_ns;
        if look.now_ns - judged.since_ns < JUDGED_NS {
            return;
        }
        let lacks = judged.delayed_ns > JUDGED_NS / 10 && judged.delayed_ns * 4 > judged.ran_ns;
        *judged = Judged { since_ns: look.now_ns, ..Judged::default() };
        if !lacks {
            return;
        }
        if !self.lacks_cpus(look.now_ns) {
            // A lack that comes back soon after its end has lasted, and was not looked for.
            let is_back = self.lack_until_ns > 0 && look.now_ns < self.lack_until_ns + self.lack_ns;
            self.lack_ns = if is_back { LONGEST_LACK_NS.min(2 * self.lack_ns) } else { LACK_NS };
        }
        self.lack_until_ns = look.now_ns + self.lack_ns;
    }

    /// Returns the number of workers that the work needs.
    fn needed(&mut self, look: &WorkersLook) -> u32 {
        self.excess = match look.excess && look.busy >= self.active {
            true => self.excess + 1,
            false => 0,
        };
        self.looks += 1;
        self.busy += look.busy;
        if self.excess >= LOOKS_UP {
            self.begin_window();
            return self.active + 1;
        }
        if self.looks < LOOKS_DOWN {
            return self.active;
        }
        // An eighth more, as a fiber that moves between two workers may be seen on both. Workers
        // that stand by may be busy as well, with fibers that are pinned to them.
        let busy_at_most = |eighths| self.busy * 8 <= eighths * self.looks;
        let needed = match self.active {
            active if busy_at_most((active - 1) * 8 + 1) => active - 1,
            active if busy_at_most(active * 8 + 6) => active,
            active => active + 1,
        };
        self.begin_window();
        needed
    }

    fn begin_window(&mut self) {
        (self.excess, self.looks, self.busy) = (0, 0, 0);
    }
}

fn limit(workers: u32, cpus: u32) -> u32 {
    workers.min(cpus).max(1)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Lets `active` look `looks` times, a millisecond apart, from `now` on.
    fn look_for(active: &mut ActiveWorkers, now: &mut u64, looks: u32, look: WorkersLook) -> u32 {
        for _ in 0..looks {
            *now += MS;
            active.observe(&WorkersLook { now_ns: *now, ..look });
        }
        active.count()
    }

    /// Two workers on two CPUs, each of which runs for half of the time and waits for its CPU for
    /// the other half.
    fn beside_neighbours(busy: u32, excess: bool) -> WorkersLook {
        WorkersLook { cpus: 2, busy, excess, ran_ns: MS, delayed_ns: MS, ..WorkersLook::default() }
    }

    #[test]
    fn workers_beyond_the_cpus_stand_by_at_once() {
        let mut active = ActiveWorkers::new(8, 2, false);
        assert_eq!(active.count(), 2);
        for (cpus, expected) in [(4, 4), (1, 1), (0, 1), (16, 8), (2, 2)] {
            let look = WorkersLook { cpus, busy: 8, excess: true, ..WorkersLook::default() };
            assert_eq!(active.observe(&look), expected, "{cpus} CPUs");
        }
    }

    #[test]
    fn an_idle_runtime_keeps_its_workers_active() {
        let (mut active, mut now) = (ActiveWorkers::new(2, 2, false), 0);
        let idle = WorkersLook { cpus: 2, ..WorkersLook::default() };
        assert_eq!(look_for(&mut active, &mut now, 1000, idle), 2);
    }

    #[test]
    fn work_is_concentrated_on_as_few_workers_as_it_needs() {
        let (mut active, mut now) = (ActiveWorkers::new(4, 4, true), 0);
        assert_eq!(active.count(), 1);
        let look = |busy, excess| WorkersLook {
            cpus: 4,
            concentrates: true,
            busy,
            excess,
            ..WorkersLook::default()
        };
        assert_eq!(look_for(&mut active, &mut now, 100, look(1, false)), 1);
        // One look is no excess: the worker may be about to take the fiber.
        assert_eq!(look_for(&mut active, &mut now, 1, look(1, true)), 1);
        assert_eq!(look_for(&mut active, &mut now, 1, look(1, true)), 2);
        assert_eq!(look_for(&mut active, &mut now, 2, look(2, true)), 3);
        assert_eq!(look_for(&mut active, &mut now, 100, look(3, false)), 3);
        assert_eq!(look_for(&mut active, &mut now, 2 * LOOKS_DOWN, look(2, false)), 2);
        assert_eq!(look_for(&mut active, &mut now, 3 * LOOKS_DOWN, look(0, false)), 1);
        assert_eq!(look_for(&mut active, &mut now, 2, look(1, true)), 2);
        assert_eq!(active.rest(), 1);
        assert_eq!(look_for(&mut active, &mut now, 100, look(1, false)), 1);
    }

    #[test]
    fn beside_neighbours_a_single_token_has_one_worker() {
        let (mut active, mut now) = (ActiveWorkers::new(2, 2, false), 0);
        assert_eq!(look_for(&mut active, &mut now, 200, beside_neighbours(1, false)), 1);
        // Work for two workers keeps both, as each gets a share of its own.
        assert_eq!(look_for(&mut active, &mut now, 4, beside_neighbours(2, true)), 2);
        assert_eq!(look_for(&mut active, &mut now, 1000, beside_neighbours(2, true)), 2);
    }

    #[test]
    fn pinned_work_for_two_workers_has_both() {
        let (mut active, mut now) = (ActiveWorkers::new(2, 1, false), 0);
        assert_eq!(look_for(&mut active, &mut now, 200, beside_neighbours(1, false)), 1);
        assert_eq!(look_for(&mut active, &mut now, 2 * LOOKS_DOWN, beside_neighbours(2, false)), 2);
        assert_eq!(look_for(&mut active, &mut now, 200, beside_neighbours(2, false)), 2);
    }

    #[test]
    fn all_workers_are_active_again_once_the_neighbours_have_gone() {
        let (mut active, mut now) = (ActiveWorkers::new(2, 2, false), 0);
        look_for(&mut active, &mut now, 200, beside_neighbours(1, false));
        let alone = WorkersLook { delayed_ns: 0, ..beside_neighbours(1, false) };
        assert_eq!(look_for(&mut active, &mut now, 500, alone), 1);
        assert_eq!(look_for(&mut active, &mut now, 600, alone), 2);
    }

    #[test]
    fn a_lack_that_comes_back_is_taken_to_last_longer() {
        let (mut active, mut now) = (ActiveWorkers::new(2, 2, false), 0);
        let mut lasted = Vec::new();
        for _ in 0..3 {
            look_for(&mut active, &mut now, 100, beside_neighbours(1, false));
            let began = now;
            while active.lacks_cpus(now) {
                let alone = WorkersLook { delayed_ns: 0, ..beside_neighbours(1, false) };
                look_for(&mut active, &mut now, 1, alone);
            }
            lasted.push((now - began).div_ceil(1000 * MS));
        }
        assert_eq!(lasted, [1, 2, 4]);
    }

    proptest! {
        #[test]
        fn the_count_never_exceeds_workers_and_cpus(
            workers in 1_u32..20,
            looks in prop::collection::vec((0_u32..20, any::<bool>(), 0_u32..40, any::<bool>(), 0_u64..2, 0_u64..2), 1..200),
        ) {
            let (mut active, mut now) = (ActiveWorkers::new(workers, 4, false), 0);
            for (cpus, concentrates, busy, excess, ran, delayed) in looks {
                now += 10 * MS;
                let (ran_ns, delayed_ns) = (ran * 10 * MS, delayed * 10 * MS);
                let look = WorkersLook { now_ns: now, cpus, concentrates, busy, excess, ran_ns, delayed_ns };
                let count = active.observe(&look);
                prop_assert!((1..=workers.min(cpus).max(1)).contains(&count));
            }
        }
    }
}
