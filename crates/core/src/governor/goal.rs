//! Goals in place of a preset: the time that agents spin is computed from the times for which they
//! have been idle.

use std::time::Duration;

use super::Preset;
use crate::atomic::{AtomicU32, Ordering};

/// Number of classes of idle times: class `i` holds those of `1 << i` ns and more, and less than
/// twice that; the last one all that are longer.
const CLASSES: usize = 36;
/// CPU time of a look at a polled source by an agent that sleeps in between, in nanoseconds.
const LOOK_COST_NS: u64 = 8_000;
/// Idle times by which a spin is judged, at least.
const ENOUGH: u64 = 32;
/// A spin is in vain if fewer than one of so many idle times end within four times the spin.
const VAIN: u64 = 16;

/// The user's goals. Without any, the preset decides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goals {
    /// Time within which 99 of 100 events shall be seen.
    pub latency: Option<Duration>,
    /// CPU time that agents may use for polling, in CPUs: 0.1 is a tenth of one.
    pub cpu: Option<f64>,
}

/// The times for which agents were idle until an event came. One thread writes, any thread reads.
#[derive(Debug)]
pub struct IdleTimes([AtomicU32; CLASSES]);

/// Counts of idle times, by classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleCounts([u64; CLASSES]);

/// The reason for the time that agents spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpinReason {
    /// The preset says so.
    Preset,
    /// Other threads take the CPUs: agents spin no longer than a sleep costs.
    ScarceCpus,
    /// There were too few events for a goal: agents spin as by the preset.
    FewEvents,
    /// A sleep is short enough for the latency that is the goal.
    SleepIsFast,
    /// So long that 99 of 100 events come meanwhile.
    Latency,
    /// As long as the CPU time that is the goal allows.
    Cpu,
    /// Events come so long after agents have become idle that a spin hardly ever sees one: agents
    /// spin a sixteenth of the time that the preset says.
    InVain,
}

impl SpinReason {
    /// All reasons, in their order.
    pub(super) const ALL: [SpinReason; 7] = [
        SpinReason::Preset,
        SpinReason::ScarceCpus,
        SpinReason::FewEvents,
        SpinReason::SleepIsFast,
        SpinReason::Latency,
        SpinReason::Cpu,
        SpinReason::InVain,
    ];
}

/// The time that agents spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// The time, in nanoseconds; `u64::MAX` is without limit.
    pub ns: u64,
    /// The reason for it.
    pub reason: SpinReason,
}

impl Spin {
    /// Returns the spin of a preset alone.
    pub const fn of(preset: Preset) -> Self {
        let ns = match preset.spin_ns() {
            Some(ns) => ns,
            None => u64::MAX,
        };
        Spin { ns, reason: SpinReason::Preset }
    }

    /// Returns the spin of `preset_ns`, or a short one if that is in vain by the idle times `seen`.
    pub(super) fn by_preset(preset_ns: u64, seen: &IdleCounts) -> Self {
        if preset_ns != u64::MAX && seen.are_enough() && seen.hardly_within(4 * preset_ns) {
            return Spin { ns: preset_ns / VAIN, reason: SpinReason::InVain };
        }
        Spin { ns: preset_ns, reason: SpinReason::Preset }
    }
}

impl IdleTimes {
    /// Creates counts of zero.
    pub fn new() -> Self {
        IdleTimes(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    /// Counts an idle time that an event has ended. Only for the writing thread: it is no atomic
    /// read-modify-write.
    pub fn note(&self, idle_ns: u64) {
        let count = &self.0[class_of(idle_ns)];
        // Relaxed: a statistic.
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

impl Default for IdleTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for IdleCounts {
    fn default() -> Self {
        IdleCounts([0; CLASSES])
    }
}

impl IdleCounts {
    /// Returns the sums of `all`.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a IdleTimes>) -> Self {
        let mut sums = IdleCounts::default();
        for times in all {
            for (sum, count) in sums.0.iter_mut().zip(&times.0) {
                *sum += u64::from(count.load(Ordering::Relaxed));
            }
        }
        sums
    }

    /// Returns the counts since `before`.
    #[must_use]
    pub fn since(&self, before: &IdleCounts) -> Self {
        IdleCounts(std::array::from_fn(|class| self.0[class].wrapping_sub(before.0[class])))
    }

    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns true if there are enough idle times to judge a spin by.
    pub fn are_enough(&self) -> bool {
        self.total() >= ENOUGH
    }

    /// Returns true if fewer than one of [`VAIN`] idle times ended within `ns`.
    fn hardly_within(&self, ns: u64) -> bool {
        let within: u64 = self.0[..class_of(ns)].iter().sum();
        within * VAIN < self.total()
    }

    /// Returns a time within which 99 of 100 events came.
    fn percentile_99(&self) -> u64 {
        let total = self.total();
        let mut come = 0;
        for (class, count) in self.0.iter().enumerate() {
            come += count;
            if come * 100 >= total * 99 {
                return end_of(class);
            }
        }
        u64::MAX
    }

    /// Returns the time for which agents would have spun, had each spun for at most `spin_ns`.
    fn spun(&self, spin_ns: u64) -> u64 {
        let counts = self.0.iter().enumerate();
        counts.map(|(class, count)| count.saturating_mul(spin_ns.min(end_of(class)))).sum()
    }
}

impl Goals {
    /// No goal.
    pub const NONE: Goals = Goals { latency: None, cpu: None };

    /// Returns true if there is a goal.
    pub fn any(&self) -> bool {
        *self != Goals::NONE
    }

    /// Returns the time that agents spin by these goals, from the idle times `seen` during
    /// `elapsed_ns`, and the time `sleep_ns` from an event to the run of an agent that sleeps;
    /// `preset_ns` if too few were seen.
    pub fn spin(&self, seen: &IdleCounts, elapsed_ns: u64, sleep_ns: u64, preset_ns: u64) -> Spin {
        let within = |latency: Duration| latency.as_nanos() >= u128::from(sleep_ns);
        let wanted = match self.latency {
            // Also without events: the next one comes to a sleeping agent.
            Some(latency) if within(latency) => Spin { ns: 0, reason: SpinReason::SleepIsFast },
            _ if !seen.are_enough() => Spin { ns: preset_ns, reason: SpinReason::FewEvents },
            Some(_) => Spin { ns: seen.percentile_99(), reason: SpinReason::Latency },
            None => Spin { ns: u64::MAX, reason: SpinReason::Cpu },
        };
        let Some(cpus) = self.cpu else { return wanted };
        let budget_ns = (elapsed_ns as f64 * cpus) as u64;
        if seen.spun(wanted.ns) <= budget_ns {
            return wanted;
        }
        let mut classes = (0..CLASSES).rev().map(end_of);
        let affordable = classes.find(|&spin_ns| seen.spun(spin_ns) <= budget_ns).unwrap_or(0);
        Spin { ns: affordable.min(wanted.ns), reason: SpinReason::Cpu }
    }

    /// Returns the time until the next look at a polled source, in place of `preset_ns`, for an
    /// agent that does not spin.
    pub fn sample_ns(&self, preset_ns: u64) -> u64 {
        let by_latency = self.latency.map(|latency| (latency.as_nanos() as u64 / 2).max(1_000));
        let wanted = by_latency.unwrap_or(preset_ns);
        // Half of the time for looks, the other half for spinning.
        let affordable = self.cpu.map_or(0, |cpus| (LOOK_COST_NS as f64 * 2.0 / cpus) as u64);
        wanted.max(affordable)
    }
}

fn class_of(idle_ns: u64) -> usize {
    (idle_ns.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// Returns the end of the times of a class.
fn end_of(class: usize) -> u64 {
    if class == CLASSES - 1 { u64::MAX } else { 2 << class }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// The counts of these idle times, each so often.
    fn seen(times: &[(u64, u32)]) -> IdleCounts {
        let all = IdleTimes::new();
        for &(idle_ns, count) in times {
            (0..count).for_each(|_| all.note(idle_ns));
        }
        IdleCounts::sum([&all])
    }

    fn latency(us: u64) -> Goals {
        Goals { latency: Some(Duration::from_micros(us)), cpu: None }
    }

    fn spin(goals: Goals, seen: &IdleCounts) -> (u64, SpinReason) {
        // A sleep of 50 us.
        let spin = goals.spin(seen, SECOND, 50_000, 7);
        (spin.ns, spin.reason)
    }

    #[test]
    fn a_latency_that_a_sleep_reaches_needs_no_spin() {
        assert_eq!(spin(latency(50), &seen(&[])), (0, SpinReason::SleepIsFast));
        assert_eq!(spin(latency(500), &seen(&[(1_000, 1_000)])), (0, SpinReason::SleepIsFast));
    }

    #[test]
    fn a_short_latency_has_agents_spin_until_the_most_events_come() {
        assert_eq!(spin(latency(10), &seen(&[])), (7, SpinReason::FewEvents));
        let events = seen(&[(900, 500), (90_000, 490), (900_000, 10)]);
        assert_eq!(spin(latency(10), &events), (131_072, SpinReason::Latency));
        let rare = seen(&[(900, 98), (90_000_000, 2)]);
        assert_eq!(spin(latency(10), &rare), (134_217_728, SpinReason::Latency));
    }

    #[test]
    fn a_budget_bounds_the_time_that_is_spun() {
        // 1,000 events a second, each after a millisecond.
        let events = seen(&[(1_000_000, 1_000)]);
        let budget = |cpu| Goals { latency: None, cpu: Some(cpu) };
        for (cpu, most) in [(0.01, 10_000), (0.1, 100_000), (0.0, 0)] {
            let (spin_ns, reason) = spin(budget(cpu), &events);
            assert_eq!(reason, SpinReason::Cpu);
            assert!(spin_ns <= most && spin_ns * 2 >= most, "{cpu}: {spin_ns}");
        }
        let both = Goals { cpu: Some(0.01), ..latency(10) };
        assert_eq!(spin(both, &events), (8_192, SpinReason::Cpu));
        let rich = Goals { cpu: Some(2.0), ..latency(10) };
        assert_eq!(spin(rich, &events), (1_048_576, SpinReason::Latency));
    }

    #[test]
    fn a_spin_is_short_if_hardly_any_event_comes_soon_after() {
        let by_preset = |times: &[(u64, u32)]| {
            let spin = Spin::by_preset(50_000, &seen(times));
            (spin.ns, spin.reason)
        };
        let long = (50_000, SpinReason::Preset);
        assert_eq!(by_preset(&[]), long);
        assert_eq!(by_preset(&[(900_000, 31)]), long, "too few");
        assert_eq!(by_preset(&[(900_000, 32)]), (3_125, SpinReason::InVain));
        assert_eq!(by_preset(&[(900_000, 95), (1_000, 5)]), (3_125, SpinReason::InVain));
        assert_eq!(by_preset(&[(900_000, 90), (1_000, 10)]), long);
        // Two threads that wake each other: each spin would be worth it, if both spun.
        assert_eq!(by_preset(&[(60_000, 100)]), long);
        assert_eq!(Spin::by_preset(u64::MAX, &seen(&[(900_000, 99)])).ns, u64::MAX);
    }

    #[test]
    fn looks_are_as_frequent_as_the_goals_allow() {
        assert_eq!(Goals::default().sample_ns(50_000), 50_000);
        assert_eq!(latency(500).sample_ns(50_000), 250_000);
        assert_eq!(Goals { latency: None, cpu: Some(0.01) }.sample_ns(50_000), 1_600_000);
        assert_eq!(Goals { cpu: Some(0.5), ..latency(500) }.sample_ns(50_000), 250_000);
    }

    #[test]
    fn each_reason_has_its_place() {
        for (place, reason) in SpinReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }

    #[test]
    fn counts_are_those_since_the_last_look() {
        let before = seen(&[(5, 3)]);
        let now = seen(&[(5, 10), (100, 1)]);
        assert_eq!(now.since(&before), seen(&[(5, 7), (100, 1)]));
    }

    proptest! {
        #[test]
        fn the_budget_is_kept_whatever_the_idle_times(
            times in prop::collection::vec((any::<u64>(), 1_u32..50), 0..20),
            cpu in 0.0..4.0_f64,
        ) {
            let seen = seen(&times);
            let goals = Goals { latency: None, cpu: Some(cpu) };
            let spin = goals.spin(&seen, SECOND, 50_000, 0);
            prop_assert!(seen.spun(spin.ns) <= (SECOND as f64 * cpu) as u64 || seen.total() < ENOUGH);
        }
    }
}
