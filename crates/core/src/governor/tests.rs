//! Decisions as a table, and the count of permits under any sequence of calls.

use proptest::prelude::*;

use super::*;

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
    for (preset, idle_ns, silent, expected) in cases {
        assert_eq!(preset.decide(idle_ns, silent), expected, "{preset:?} after {idle_ns}");
    }
}

#[test]
fn nobody_spins_on_one_cpu() {
    let governor = Governor::new(4, 1, Preset::Latency);
    let mut permit = None;
    assert_eq!(governor.decide(&mut permit, 0, 0, false), Decision::Park);
    assert_eq!(governor.decide(&mut permit, 0, 0, true), Decision::ParkFor(50_000));
}

#[test]
fn a_clock_that_runs_backwards_means_no_idle_time() {
    let governor = Governor::new(2, 2, Preset::Balanced);
    assert_eq!(governor.decide(&mut None, 100_000, 0, false), Decision::Spin);
}

#[test]
fn settings_do_not_disturb_each_other() {
    let governor = Governor::new(8, 8, Preset::Power);
    governor.set_max_agents(3);
    governor.set_preset(Preset::Latency);
    assert_eq!((governor.preset(), governor.allowed()), (Preset::Latency, 3));
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
    fn never_more_spinners_than_allowed(cpus in 1u32..8, steps in prop::collection::vec(step(), 0..200)) {
        let governor = Governor::new(6, cpus, Preset::Latency);
        let mut permits: [Option<Permit<'_>>; 6] = Default::default();
        for step in steps {
            match step {
                Step::Decide(agent) => {
                    let decision = governor.decide(&mut permits[agent], 0, 0, false);
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
                            let _ = governor.decide(permit, 0, 0, false);
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
