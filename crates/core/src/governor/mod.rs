//! The governor: how many agents poll, and for how long; the price in CPU for the latency of a
//! wake.

mod active;
mod goal;
mod idle;
mod preset;
mod sleep;

pub use active::{ActiveWorkers, WorkersLook};
pub use goal::{Goals, IdleCounts, IdleTimes, Spin, SpinReason};
pub use idle::{Company, Decision, Idle, Plan};
pub use preset::{LONGEST_SAMPLE_NS, Preset};
pub use sleep::SleepCost;

use crate::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The settings of the governor, in one word that any thread may replace at any time.
///
/// ```text
/// 63        32 31       2 1      0
/// | max agents |  unused  | preset |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings(u64);

impl Settings {
    const fn new(preset: Preset, max_agents: u32) -> Self {
        Self((max_agents as u64) << 32 | preset as u64)
    }

    const fn preset(self) -> Preset {
        match self.0 & 3 {
            0 => Preset::Latency,
            1 => Preset::Balanced,
            _ => Preset::Power,
        }
    }

    const fn max_agents(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A time that agents spin, in nanoseconds, its reason, and the preset under which it was set.
///
/// ```text
/// 63  5 4     2 1      0
/// | ns | reason | preset |
/// ```
#[derive(Clone, Copy, Debug)]
struct SpinWord(u64);

impl SpinWord {
    /// The time that stands for one without limit.
    const ENDLESS: u64 = u64::MAX >> 5;

    fn new(preset: Preset, spin: Spin) -> Self {
        Self(spin.ns.min(Self::ENDLESS) << 5 | (spin.reason as u64) << 2 | preset as u64)
    }

    /// Returns the spin under `preset`: its own, if this one was set under another.
    fn under(self, preset: Preset) -> Spin {
        if self.0 & 3 != preset as u64 {
            return Spin::of(preset);
        }
        let ns = self.0 >> 5;
        let reason = SpinReason::ALL[(self.0 >> 2 & 7) as usize];
        Spin { ns: if ns < Self::ENDLESS { ns } else { u64::MAX }, reason }
    }
}

/// A bound on the number of agents of a runtime that spin at a time.
///
/// # Examples
///
/// An agent asks after every fruitless round; the permit makes it one of the spinners.
///
/// ```
/// use daiko_core::governor::{Decision, Governor, Idle, Preset};
///
/// let governor = Governor::new(2, 2, Preset::Balanced);
/// let mut permit = None;
/// assert_eq!(governor.decide(&mut permit, &Idle::alone(10_000, false)), Decision::Spin);
/// assert!(permit.is_some());
/// assert_eq!(governor.decide(&mut permit, &Idle::alone(50_000, false)), Decision::Park);
/// assert!(permit.is_none());
/// ```
#[derive(Debug)]
pub struct Governor {
    settings: AtomicU64,
    /// Number of permits that are out and counted.
    spinners: AtomicU32,
    workers: u32,
    cpus: AtomicU32,
    goals: Goals,
    /// The time that agents spin under one preset: a `SpinWord`.
    spin: AtomicU64,
    /// The cost of a sleep.
    pub sleep: SleepCost,
}

impl Governor {
    /// Creates a governor for `workers` agents on `cpus` allowed CPUs, without a lower limit of
    /// agents.
    pub fn new(workers: u32, cpus: u32, preset: Preset) -> Self {
        let settings = AtomicU64::new(Settings::new(preset, u32::MAX).0);
        Self {
            settings,
            spinners: AtomicU32::new(0),
            workers,
            cpus: AtomicU32::new(cpus),
            goals: Goals::NONE,
            spin: AtomicU64::new(SpinWord::new(preset, Spin::of(preset)).0),
            sleep: SleepCost::new(),
        }
    }

    /// Adds the user's goals.
    #[must_use]
    pub fn with_goals(self, goals: Goals) -> Self {
        Self { goals, ..self }
    }

    /// Returns the user's goals.
    pub fn goals(&self) -> &Goals {
        &self.goals
    }

    /// Sets the time that agents spin, from the idle times `seen` during `elapsed_ns`; `scarce` if
    /// other threads take the CPUs. In force at each agent's next decision.
    pub fn adapt(&self, seen: &IdleCounts, elapsed_ns: u64, scarce: bool) -> Spin {
        let preset = self.preset();
        let by_preset = match Spin::of(preset).ns {
            0 => 0,
            // A spin that is shorter than the sleep that it may avoid is never worth it.
            preset_ns => preset_ns.max(self.sleep.mean_ns()),
        };
        let spin = match (self.goals.any(), scarce) {
            (_, true) => {
                let ns = by_preset.min(self.sleep.mean_ns());
                Spin { ns, reason: SpinReason::ScarceCpus }
            }
            (true, false) => self.goals.spin(seen, elapsed_ns, self.sleep.most_ns(), by_preset),
            (false, false) => Spin::by_preset(by_preset, seen),
        };
        // Relaxed: the word publishes nothing else.
        self.spin.store(SpinWord::new(preset, spin).0, Ordering::Relaxed);
        spin
    }

    /// Returns the times by which agents decide now.
    pub fn plan(&self) -> Plan<'_> {
        self.plan_under(self.settings())
    }

    fn plan_under(&self, settings: Settings) -> Plan<'_> {
        let preset = settings.preset();
        let spin = SpinWord(self.spin.load(Ordering::Relaxed)).under(preset);
        Plan { preset, spin, goals: &self.goals }
    }

    /// Replaces the preset. Agents that spin obey at their next decision; the caller unparks the
    /// parked agents if they are to obey at once.
    pub fn set_preset(&self, preset: Preset) {
        self.change(|settings| Settings::new(preset, settings.max_agents()));
    }

    /// Lets at most `max_agents` agents spin at a time. In force at each agent's next decision.
    pub fn set_max_agents(&self, max_agents: u32) {
        self.change(|settings| Settings::new(settings.preset(), max_agents));
    }

    /// Replaces the number of allowed CPUs. In force at each agent's next decision.
    pub fn set_cpus(&self, cpus: u32) {
        // Relaxed: the word publishes nothing else.
        self.cpus.store(cpus, Ordering::Relaxed);
    }

    /// Returns the preset in force.
    pub fn preset(&self) -> Preset {
        self.settings().preset()
    }

    /// Returns the number of agents that may spin at a time: no more than the allowed CPUs, and
    /// none if only one is allowed, since the thread that the agent waits for needs it.
    pub fn allowed(&self) -> u32 {
        self.allowed_under(self.settings())
    }

    /// Returns true if an agent that has just found no work may look for more at once: a look is a
    /// short spin, and in vain where [`decide`](Self::decide) lets no agent spin.
    pub fn may_spin_for(&self, company: Company) -> bool {
        let settings = self.settings();
        self.plan_under(settings).may_spin_for(company, self.allowed_under(settings))
    }

    /// Decides on the next step of an agent that found no work.
    ///
    /// `permit` is the agent's own, `None` at first: present exactly if the decision is
    /// [`Decision::Spin`], unless the agent spins on behalf of other processes. An agent that found
    /// work drops it.
    pub fn decide<'g>(&'g self, permit: &mut Option<SpinPermit<'g>>, idle: &Idle) -> Decision {
        let settings = self.settings();
        let plan = self.plan_under(settings);
        if plan.decide(idle, true) != Decision::Spin {
            *permit = None;
        } else if permit.as_ref().is_none_or(|permit| permit.settings != settings) {
            // The old permit is given back before the new one is asked for.
            *permit = None;
            *permit = self.enter(settings);
        }
        plan.decide(idle, permit.is_some())
    }

    /// Returns a permit under `settings`, unless all are out. No RMW if there is one for every
    /// worker.
    fn enter(&self, settings: Settings) -> Option<SpinPermit<'_>> {
        let allowed = self.allowed_under(settings);
        let counted = allowed < self.workers;
        if counted && !self.count_in(allowed) {
            return None;
        }
        Some(SpinPermit { governor: self, settings, counted })
    }

    fn count_in(&self, allowed: u32) -> bool {
        let more = |spinners| (spinners < allowed).then_some(spinners + 1);
        if cfg!(weaken = "governor-permit") {
            let next = more(self.spinners.load(Ordering::Acquire));
            next.inspect(|&next| self.spinners.store(next, Ordering::Release));
            return next.is_some();
        }
        // Acquire: pairs with the Release in the drop of a permit: a former spinner has stopped.
        self.spinners.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
    }

    fn settings(&self) -> Settings {
        // Relaxed: the word publishes nothing else.
        Settings(self.settings.load(Ordering::Relaxed))
    }

    fn change(&self, change: impl Fn(Settings) -> Settings) {
        let change = |word| Some(change(Settings(word)).0);
        // Relaxed, as in `settings`; it never fails, since `change` always has a value.
        let _ = self.settings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    fn allowed_under(&self, settings: Settings) -> u32 {
        let cpus = self.cpus.load(Ordering::Relaxed);
        if cpus <= 1 { 0 } else { cpus.min(settings.max_agents()) }
    }
}

/// The right of one agent to spin, given back by dropping it.
#[derive(Debug)]
#[must_use]
pub struct SpinPermit<'g> {
    governor: &'g Governor,
    settings: Settings,
    counted: bool,
}

impl Drop for SpinPermit<'_> {
    fn drop(&mut self) {
        if self.counted {
            // Release: pairs with the Acquire in `count_in`.
            self.governor.spinners.fetch_sub(1, Ordering::Release);
        }
    }
}
