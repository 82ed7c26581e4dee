//! Decisions as a table, and the count of permits under any sequence of calls.

use proptest::prelude::*;

use super::idle::SHARED_SPIN_NS;
use super::*;
use crate::testing::scaled;

#[test]
fn presets_decide_as_documented() {
    use Decision::*;
    let cases = [
        (Preset::Latency, u64::MAX, true, Spin),
        (Preset::Balanced, 49_999, false, Spin),
        (Preset::Balanced, 50_000, false, Park),
        (Preset::Balanced, 50_000, true, ParkFor(50_000)),
        (Preset::Power, 0, false, Park),
        (Preset::Power, 0, true, ParkFor(1_000_000)),
    ];
    for (preset, idle_ns, polled, expected) in cases {
        assert_eq!(
            Plan::of(preset).decide(&Idle::alone(idle_ns, polled), true),
            expected,
            "{preset:?} after {idle_ns}"
        );
    }
}

/// Adds up the looks of an agent at a source that does not change for `quiet_ns`.
fn looks_until(preset: Preset, quiet_ns: u64) -> (u64, u64) {
    let (mut idle_ns, mut looks, mut last) = (0, 0, 0);
    while idle_ns < quiet_ns {
        last = preset.sample_ns(idle_ns);
        idle_ns += last;
        looks += 1;
    }
    (looks, last)
}

#[test]
fn looks_at_a_silent_source_become_rare() {
    const SECOND: u64 = 1_000_000_000;
    for (preset, first) in [(Preset::Balanced, 50_000), (Preset::Power, 1_000_000)] {
        assert_eq!(preset.sample_ns(0), first);
        assert_eq!(preset.sample_ns(u64::MAX), LONGEST_SAMPLE_NS);
        let rises = (0..64).map(|power| preset.sample_ns(1 << power));
        assert!(rises.is_sorted());
    }
    // With ten changes a second.
    assert_eq!(looks_until(Preset::Balanced, SECOND / 10), (162, 875_000));
    let (looks, last) = looks_until(Preset::Balanced, 60 * SECOND);
    assert!(looks < 60 * 200 && last == LONGEST_SAMPLE_NS, "{looks}");
}

#[test]
fn no_agent_spins_on_one_cpu() {
    let governor = Governor::new(4, 1, Preset::Latency);
    let mut permit = None;
    assert_eq!(governor.decide(&mut permit, &Idle::alone(0, false)), Decision::Park);
    assert_eq!(governor.decide(&mut permit, &Idle::alone(0, true)), Decision::ParkFor(50_000));
}

#[test]
fn peers_that_are_awake_decide_how_long_an_agent_spins_for_them() {
    use Decision::*;
    let [none, here, elsewhere, both] =
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(here, elsewhere)| Company { here, elsewhere });
    // Preset, company, seat, permit, idle time, decision.
    let cases = [
        (Preset::Latency, none, false, true, 0, Spin),
        (Preset::Latency, none, true, false, 0, Park),
        (Preset::Latency, here, true, true, 0, Park),
        (Preset::Latency, elsewhere, true, false, u64::MAX, Spin),
        (Preset::Latency, elsewhere, false, true, 0, Park),
        (Preset::Balanced, elsewhere, true, false, 49_999, Spin),
        (Preset::Balanced, elsewhere, true, true, 50_000, Park),
        (Preset::Latency, both, true, false, SHARED_SPIN_NS - 1, Spin),
        (Preset::Latency, both, true, true, SHARED_SPIN_NS, Park),
        (Preset::Power, elsewhere, true, true, 0, Park),
        (Preset::Power, both, true, true, 0, Park),
    ];
    for (preset, company, has_seat, permitted, idle_ns, expected) in cases {
        let idle = Idle { company, has_seat, ..Idle::alone(idle_ns, false) };
        assert_eq!(Plan::of(preset).decide(&idle, permitted), expected, "{preset:?}, {idle:?}");
        if expected == Spin {
            assert!(Plan::of(preset).may_spin_for(company, 1));
        }
        let polite = Idle { gives_way: true, polled: true, ..idle };
        assert_eq!(Plan::of(preset).decide(&polite, permitted), ParkFor(preset.sample_ns(idle_ns)));
    }
}

#[test]
fn an_agent_looks_again_at_once_only_if_it_may_spin() {
    let none = Company::default();
    let elsewhere = Company { elsewhere: true, here: false };
    let cases = [
        (Preset::Latency, 2, none, true),
        (Preset::Balanced, 2, none, true),
        (Preset::Balanced, 1, none, false),
        (Preset::Balanced, 1, elsewhere, true),
        (Preset::Power, 2, none, false),
        (Preset::Power, 2, elsewhere, false),
    ];
    for (preset, cpus, company, expected) in cases {
        let governor = Governor::new(2, cpus, preset);
        let may_spin = governor.may_spin_for(company);
        assert_eq!(may_spin, expected, "{preset:?}, {cpus} CPUs, {company:?}");
        let idle = Idle { company, ..Idle::alone(0, false) };
        assert_eq!(governor.decide(&mut None, &idle) == Decision::Spin, expected);
    }
}

#[test]
fn settings_do_not_disturb_each_other() {
    let governor = Governor::new(8, 8, Preset::Power);
    governor.set_max_agents(3);
    governor.set_preset(Preset::Latency);
    assert_eq!((governor.preset(), governor.allowed()), (Preset::Latency, 3));
}

#[test]
fn a_spinner_keeps_the_last_permit_as_the_settings_change() {
    let governor = Governor::new(4, 4, Preset::Latency);
    governor.set_max_agents(1);
    let mut permit = None;
    for preset in [Preset::Latency, Preset::Balanced] {
        governor.set_preset(preset);
        assert_eq!(governor.decide(&mut permit, &Idle::alone(0, false)), Decision::Spin);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Decide(usize),
    Leave(usize),
    MaxAgents(u32),
    Preset(Preset),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..6).prop_map(Step::Decide),
        3 => (0usize..6).prop_map(Step::Leave),
        1 => (0u32..8).prop_map(Step::MaxAgents),
        1 => prop_oneof![Just(Preset::Latency), Just(Preset::Balanced), Just(Preset::Power)]
            .prop_map(Step::Preset),
    ]
}

proptest! {
    #[test]
    fn never_more_spinners_than_allowed(cpus in 1u32..8, steps in prop::collection::vec(step(), 0..scaled(200))) {
        let governor = Governor::new(6, cpus, Preset::Latency);
        let mut permits: [Option<SpinPermit<'_>>; 6] = Default::default();
        for step in steps {
            match step {
                Step::Decide(agent) => {
                    let decision = governor.decide(&mut permits[agent], &Idle::alone(0, false));
                    prop_assert_eq!(decision == Decision::Spin, permits[agent].is_some());
                    if decision == Decision::Spin {
                        prop_assert_ne!(governor.allowed(), 0);
                    }
                }
                Step::Leave(agent) => permits[agent] = None,
                change => {
                    match change {
                        Step::MaxAgents(max_agents) => governor.set_max_agents(max_agents),
                        Step::Preset(preset) => governor.set_preset(preset),
                        _ => unreachable!(),
                    }
                    // Every agent obeys at its next decision. The last to ask may have to wait for
                    // the first to leave, so each asks twice.
                    for _ in 0..2 {
                        for permit in permits.iter_mut().filter(|permit| permit.is_some()) {
                            let _ = governor.decide(permit, &Idle::alone(0, false));
                        }
                    }
                }
            }
            let spinning = permits.iter().flatten().count() as u32;
            prop_assert!(spinning <= governor.allowed());
        }
        permits.fill_with(|| None);
        prop_assert_eq!(governor.spinners.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_spin_that_was_set_under_another_preset_does_not_count() {
    let governor = Governor::new(1, 2, Preset::Power);
    let none = IdleCounts::default();
    assert_eq!(governor.adapt(&none, 1, false).ns, 0);
    governor.set_preset(Preset::Latency);
    assert_eq!(governor.plan().spin, Spin::of(Preset::Latency));
    governor.adapt(&none, 1, false);
    assert_eq!(governor.plan().spin, Spin::of(Preset::Latency));
    // Beside other threads no agent spins for long.
    let scarce = governor.adapt(&none, 1, true);
    assert_eq!(scarce.reason, SpinReason::ScarceCpus);
    assert_eq!(governor.plan().spin, scarce);
    assert_eq!(scarce.ns, governor.sleep.mean_ns());
    governor.set_preset(Preset::Balanced);
    assert_eq!(governor.plan().spin, Spin::of(Preset::Balanced));
}

#[test]
fn a_spin_lasts_as_long_as_the_sleep_that_it_may_avoid() {
    let governor = Governor::new(1, 2, Preset::Balanced);
    (0..100).for_each(|_| governor.sleep.note(200_000));
    let spin = governor.adapt(&IdleCounts::default(), 1, false);
    assert!(spin.ns > 150_000 && spin.reason == SpinReason::Preset, "{spin:?}");
}
