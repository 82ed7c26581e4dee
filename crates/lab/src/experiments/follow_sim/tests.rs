//! Properties of simulation and replay that hold for every model.

use daiko_core::place::{BOUND, Follow, existing};
use proptest::prelude::*;

use super::draw::Draw;
use super::replay::{Replay, replay};
use super::trace::*;
use super::*;
use crate::kit::{Case, Effort, Options, Params};

const PACKETS: u64 = if cfg!(debug_assertions) { 5_000 } else { 50_000 };

fn wakes(model: &Model) -> (Vec<Wake>, SimOutcome) {
    let mut wakes = Vec::new();
    let outcome = record(model, PACKETS, |wake| wakes.push(*wake)).expect("a model");
    (wakes, outcome)
}

fn policies() -> impl Strategy<Value = WakePolicy> {
    prop_oneof![
        Just(WakePolicy::Existing),
        (1u8..=8).prop_map(|bound| WakePolicy::Follow { bound })
    ]
}

fn steerings() -> impl Strategy<Value = Steering> {
    prop_oneof![
        Just(Steering::Hash),
        Just(Steering::Rfs { lag_ns: 0 }),
        (0u64..2_000_000).prop_map(|lag_ns| Steering::Rfs { lag_ns })
    ]
}

prop_compose! {
    /// Models of all sizes, none of them too loaded to be simulated.
    fn models()(
        cpus in 2u16..=MOST_CPUS,
        flows in 1u32..600,
        share in 1u64..80,
        burst in 1u32..20,
        (gap_ns, interrupt_ns, service_ns) in (0u64..300_000, 1u64..5000, 1u64..50_000),
        (cold_ns, slice_ns, balance_ns) in (0u64..5000, 1u64..100_000, 0u64..10_000_000),
        (load, load_ns) in (0u64..15, 1u64..1_000_000),
        steering in steerings(),
        policy in policies(),
        seed: u64,
    ) -> Model {
        let each = (interrupt_ns + service_ns) * u64::from(flows);
        let rate = (u64::from(cpus) * 10_000_000 * share / each).clamp(1, 10_000_000);
        Model {
            cpus, flows, rate, burst, gap_ns, interrupt_ns, service_ns, cold_ns, load, load_ns, slice_ns,
            balance_ns, steering, policy, seed,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 24 } else { 200 }))]

    #[test]
    fn every_wake_up_has_a_place_that_the_policy_allows(model in models()) {
        prop_assume!(model.check().is_ok());
        let (wakes, outcome) = wakes(&model);
        prop_assert_eq!(wakes.len() as u64, outcome.tally.wakes);
        prop_assert!(outcome.tally.wakes + outcome.dropped <= outcome.packets);
        let moves = wakes.iter().filter(|wake| wake.chosen != wake.previous).count();
        prop_assert_eq!(moves as u64, outcome.tally.wake_migrations);
        for wake in &wakes {
            prop_assert!(wake.waker.max(wake.previous).max(wake.chosen) < model.cpus);
            prop_assert!(wake.idle.checked_shr(model.cpus.into()).unwrap_or(0) == 0);
            let before = existing(wake.waker, wake.previous, wake.idle);
            let stays = model.policy != WakePolicy::Existing && wake.chosen == wake.previous;
            prop_assert!(wake.chosen == before || stays, "{:?}", wake);
        }
        prop_assert!(wakes.is_sorted_by_key(|wake| wake.at_ns));
    }

    #[test]
    fn the_same_seed_gives_the_same(model in models()) {
        prop_assume!(model.check().is_ok());
        prop_assert_eq!(wakes(&model), wakes(&model));
    }

    /// After a move, the next wake-up never sends the task back.
    #[test]
    fn follow_has_no_swaps(model in models(), bound in 1u8..8) {
        let model = Model { policy: WakePolicy::Follow { bound }, ..model };
        prop_assume!(model.check().is_ok());
        prop_assert_eq!(wakes(&model).1.tally.swaps, 0);
    }

    /// Counts, per task, consecutive wake-ups at which it stays after a move although the existing
    /// policy would move it.
    #[test]
    fn without_steering_no_task_is_kept_longer_than_the_bound(model in models()) {
        let model = Model { policy: WakePolicy::FOLLOW, steering: Steering::Hash, balance_ns: 0, ..model };
        prop_assume!(model.check().is_ok());
        let mut kept = vec![0; model.flows as usize];
        for wake in wakes(&model).0 {
            prop_assert_eq!(u32::from(wake.waker), wake.task % u32::from(model.cpus), "it never follows");
            let kept = &mut kept[wake.task as usize];
            let would_move = existing(wake.waker, wake.previous, wake.idle) != wake.previous;
            *kept = if would_move && wake.chosen == wake.previous { *kept + 1 } else { 0 };
            prop_assert!(*kept <= BOUND, "{:?}", wake);
        }
    }

    #[test]
    fn a_trace_of_the_simulator_replays_to_its_own_counts(model in models()) {
        prop_assume!(model.check().is_ok());
        let model = match model.policy {
            WakePolicy::Existing => model,
            WakePolicy::Follow { .. } => Model { policy: WakePolicy::FOLLOW, ..model },
        };
        let (wakes, outcome) = wakes(&model);
        let text = written(model.cpus, &wakes);
        let replay = replayed(&text).unwrap();
        let replayed = match model.policy {
            WakePolicy::Existing => replay.existing.tally(),
            WakePolicy::Follow { .. } => replay.follow.tally(),
        };
        let replayed = replayed.unwrap();
        prop_assert_eq!(replayed, &replay.recorded);
        // A move onwards and back between two wake-ups is not visible in the trace.
        let mut seen = outcome.tally.clone();
        prop_assert!(replayed.other_migrations <= seen.other_migrations);
        seen.other_migrations = replayed.other_migrations;
        prop_assert_eq!(replayed, &seen);
        prop_assert_eq!(replay.lost, Some(0));
        if model.policy == WakePolicy::Existing {
            prop_assert_eq!(replay.as_existing, replay.recorded.wakes);
        }
    }

    #[test]
    fn a_trace_reads_as_it_was_written(
        cpus in 1u16..=MOST_CPUS,
        drawn in prop::collection::vec((any::<u64>(), any::<u32>(), any::<[u16; 3]>(), any::<u128>()), 0..20),
    ) {
        let wakes: Vec<Wake> = drawn.into_iter().map(|(at_ns, task, places, idle)| {
            let [waker, previous, chosen] = places.map(|cpu| cpu % cpus);
            Wake { at_ns, task, waker, previous, idle: idle >> (MOST_CPUS - cpus), chosen }
        }).collect();
        let text = written(cpus, &wakes);
        let reader = Reader::new(&text[..]).unwrap();
        prop_assert_eq!(reader.cpus(), cpus);
        let read: Result<Vec<_>, _> = reader.collect();
        prop_assert_eq!(read, Ok(wakes));
        // A trace that is cut anywhere is refused.
        for end in 0..text.len() - 1 {
            let reader = Reader::new(&text[..end]);
            let read = reader.and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
            prop_assert!(read.is_err() || text[end..].trim_ascii().is_empty(), "{end}");
        }
    }
}

fn replayed(text: &[u8]) -> Result<Replay, TraceError> {
    replay(&mut Reader::new(text)?, &mut Reader::new(text)?)
}

fn written(cpus: u16, wakes: &[Wake]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), cpus).unwrap();
    wakes.iter().for_each(|wake| writer.wake(wake).unwrap());
    writer.finish(0).unwrap()
}

#[test]
fn a_model_that_cannot_be_simulated_is_refused_with_the_range() {
    let model = Model::default();
    for (bad, wanted) in [
        (Model { cpus: 1, ..model }, "cpus=1 is not within 2 to 128"),
        (Model { cpus: 129, ..model }, "cpus=129"),
        (Model { flows: 0, ..model }, "flows=0"),
        (Model { burst: 0, ..model }, "burst=0"),
        (Model { rate: 0, ..model }, "rate=0"),
        (Model { load: 91, ..model }, "load=91"),
        (Model { steering: Steering::Rfs { lag_ns: u64::MAX }, ..model }, "lag_ns="),
        (Model { rate: 1_000_000, ..model }, "% of the CPUs: lower rate, flows or load"),
    ] {
        let error = simulate(&bad, 1).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

/// One task with packets far apart on an idle machine: its times are known beforehand.
#[test]
fn a_lone_task_stays_and_is_never_late() {
    let model = Model {
        cpus: 2,
        flows: 1,
        rate: 10,
        burst: 1,
        interrupt_ns: 64,
        service_ns: 1000,
        load: 0,
        balance_ns: 0,
        ..Model::default()
    };
    for policy in [WakePolicy::Existing, WakePolicy::FOLLOW] {
        let outcome = simulate(&Model { policy, ..model }, 10_000).unwrap();
        assert_eq!(outcome.tally.wakes, 10_000);
        assert_eq!((outcome.tally.migrations(), outcome.dropped), (0, 0));
        assert_eq!(
            (outcome.latencies.per_mille(0), outcome.latencies.per_mille(1000)),
            (Some(64), Some(64))
        );
        let each = outcome.busy_ns as f64 / 10_000.0;
        assert!((1030.0..1100.0).contains(&each), "{each} ns for each packet, 1064 by the model");
        assert!((900.0..1100.0).contains(&outcome.seconds()), "{} s", outcome.seconds());
    }
}

/// The paper's figure 2: the interrupt is one wake-up late, and the first CPU is busy once.
#[test]
fn a_trace_of_the_papers_figure_2_replays_as_the_paper_says() {
    let text = b"daiko-wakes 1\ncpus 2\n1 7 0 0 3 0\n2 7 0 0 2 1\n3 7 0 1 3 0\n4 7 1 0 3 1\n5 7 0 1 3 0\n6 7 0 0 3 0\nend 6\n";
    let replay = replayed(&text[..]).unwrap();
    assert_eq!(replay.existing.tally(), Some(&replay.recorded));
    // By a lag of one wake-up, which six wake-ups do not prove.
    let [existing, follow] = [&replay.existing, &replay.follow].map(|of| &of.tallies[0]);
    assert_eq!(replay.follow.tally(), None);
    assert_eq!((existing.migrations(), existing.swaps, existing.settle_max()), (4, 3, 3));
    assert_eq!(existing.unintended(), 0.75);
    assert_eq!((follow.migrations(), follow.swaps, follow.settle_max()), (1, 0, 0));
    assert_eq!((replay.behind[0], replay.behind[1], replay.unexplained), (2, 4, 0));
    assert_eq!((replay.as_existing, replay.tasks, replay.lost), (6, 1, None));
}

/// Number of CPUs, of tasks, and of wake-ups of each, in traces of a known law.
const LAW: (u16, u32, usize) = (8, 20, 300);

/// The migrations of `LAW`'s tasks under a policy, and its trace: the interrupt of each wake-up
/// comes where the task ran `lags` wake-ups before, and each CPU is busy in `busy` per cent of the
/// wake-ups, independently of the tasks.
fn lawful(follows: bool, busy: u32, lags: impl Fn(u32, usize) -> usize) -> (u64, Vec<Wake>) {
    let (cpus, tasks, count) = LAW;
    let mut draw = Draw::new(1);
    let (mut migrations, mut wakes) = (0, Vec::new());
    for task in 0..tasks {
        let (mut ran, mut policy) = (vec![(task % u32::from(cpus)) as u16; 16], Follow::new());
        for number in 0..count {
            let idle =
                (0..cpus).filter(|_| draw.below(100) >= busy).fold(0, |set, cpu| set | 1 << cpu);
            let (previous, waker) = (ran[0], ran[lags(task, number)]);
            let kernels = || existing(waker, previous, idle);
            let chosen = match follows {
                true => policy.place(waker, previous, BOUND, kernels),
                false => kernels(),
            };
            migrations += u64::from(chosen != previous);
            let at_ns = (number * tasks as usize) as u64 + u64::from(task);
            wakes.push(Wake { at_ns, task, waker, previous, idle, chosen });
            ran.rotate_right(1);
            ran[0] = chosen;
        }
    }
    wakes.sort_by_key(|wake| wake.at_ns);
    (migrations, wakes)
}

/// Checks that a replay of the trace under `existing` tells the migrations of `follow`, within a
/// tenth, or that it does not know them. Returns true if it tells them.
fn is_told(busy: u32, lags: impl Fn(u32, usize) -> usize) -> bool {
    let [(before, trace), (truth, _)] = [false, true].map(|follows| lawful(follows, busy, &lags));
    let replay = replayed(&written(LAW.0, &trace)).unwrap();
    assert_eq!(replay.existing.tally().map(WakeTally::migrations), Some(before));
    let told = replay.follow.tally().map(WakeTally::migrations);
    if let Some(told) = told {
        assert!(told.abs_diff(truth) as f64 <= 0.1 * truth as f64, "{told}, in truth {truth}");
    }
    told.is_some()
}

#[test]
fn a_replay_knows_the_migrations_under_a_steady_lag() {
    for busy in [2, 30] {
        for lag in [0, 1, 3, 6, 10] {
            assert!(is_told(busy, |_, _| lag), "lag {lag}, busy {busy}");
            assert!(is_told(busy, |task, _| (lag + task as usize) % 7), "own lags");
        }
    }
}

#[test]
fn a_replay_does_not_tell_counts_that_the_trace_does_not_tell() {
    let mut untold = 0;
    for busy in [2, 30] {
        for most in [1, 3, 6] {
            // Steps of a sequence that repeats late, a lag that grows, and one that jumps.
            let mixed = |task: u32, number| (task as usize * 7 + number * number / 3) % (most + 1);
            untold += usize::from(!is_told(busy, mixed));
            untold += usize::from(!is_told(busy, |_, number| number * (most + 1) / LAW.2));
            untold +=
                usize::from(!is_told(busy, |_, number| if number % 10 == 0 { most } else { 0 }));
        }
    }
    assert!(untold > 0);
}

#[test]
fn a_move_between_wake_ups_counts_once_in_each_course() {
    let text = "daiko-wakes 1\ncpus 4\n1 7 0 0 f 0\n2 7 0 2 e 2\n3 7 2 2 f 2\nlost 5\nend 3\n";
    let replay = replayed(text.as_bytes()).unwrap();
    let courses = [&replay.existing, &replay.follow].map(|of| of.tally().unwrap());
    for tally in [&replay.recorded, courses[0], courses[1]] {
        assert_eq!((tally.other_migrations, tally.wake_migrations), (1, 0));
    }
    assert_eq!(replay.lost, Some(5));
    let told = replay.to_string();
    assert!(told.starts_with("3 wake-ups of 1 tasks in 2.00 ns, 5 lost"), "{told}");
}

#[test]
fn an_invalid_trace_is_refused_with_line_and_remedy() {
    let head = "daiko-wakes 1\ncpus 4\n";
    let long = format!("{head}{}", "1".repeat(200));
    for (text, line, wanted) in [
        ("", 1, "no trace: it would begin with 'daiko-wakes 1'; name a file"),
        ("{\"schema\":1}\n", 1, "no trace"),
        ("\u{0}\u{1}\n", 1, "no trace"),
        ("daiko-wakes 2\n", 1, "a trace of version 2; this reads version 1"),
        ("daiko-wakes 1\n", 2, "'cpus' and 1 to 128"),
        ("daiko-wakes 1\ncpus 0\n", 2, "'cpus' and 1 to 128"),
        ("daiko-wakes 1\ncpus 129\n", 2, "'cpus' and 1 to 128"),
        ("daiko-wakes 1\n\n# of\ncpus four\n", 4, "'cpus' and 1 to 128"),
        (head, 3, "truncated: no 'end' behind 0 wake-ups; copy all of it"),
        ("daiko-wakes 1\ncpus 4\n1 7 0 0 3 0\n2 7 0 0", 4, "'2 7 0 0' is no wake-up"),
        ("daiko-wakes 1\ncpus 4\n1 7 0 0 3 0\n2 7 0 0 3 0\n", 5, "behind 2 wake-ups"),
        ("daiko-wakes 1\ncpus 4\n1 7 0 0 3 0\nend 2\n", 4, "'end 2' behind 1 wake-ups"),
        ("daiko-wakes 1\ncpus 4\nend 0\n1 7 0 0 3 0\n", 4, "more lines behind the end"),
        ("daiko-wakes 1\ncpus 4\nlost 1\n1 7 0 0 3 0\n", 4, "no wake-up"),
        ("daiko-wakes 1\ncpus 4\nlost 1\nlost 1\n", 4, "no wake-up"),
        ("daiko-wakes 1\ncpus 4\n1 7 4 0 3 0\n", 3, "CPU 4 of 4"),
        ("daiko-wakes 1\ncpus 4\n1 7 0 0 1f 0\n", 3, "'1f' is no mask of 4 CPUs"),
        ("daiko-wakes 1\ncpus 4\n1 7 0 0 +3 0\n", 3, "'+3' is no mask"),
        ("daiko-wakes 1\ncpus 4\n-1 7 0 0 3 0\n", 3, "'-1' is not a time in nanoseconds"),
        ("daiko-wakes 1\ncpus 4\n1 4294967296 0 0 3 0\n", 3, "'4294967296' is not a task"),
        ("daiko-wakes 1\ncpus 4\n1 7 0 x\u{1b}y 3 0\n", 3, "'x\u{fffd}y' is not a CPU"),
        (&long, 3, "longer than 160 bytes"),
    ] {
        let error = replayed(text.as_bytes()).unwrap_err();
        let told = error.to_string();
        assert_eq!(error.line, line, "{text:?}: {told}");
        assert!(told.contains(wanted) && !told.contains(char::is_control), "{text:?}: {told}");
        assert!(told.contains(';'), "no remedy: {told}");
    }
    let error = Reader::new(&b"daiko-wakes 1\n\xff\n"[..]).unwrap_err();
    assert_eq!(error.to_string(), "line 2: not text; name a file that was recorded");
}

#[test]
fn a_trace_of_too_many_tasks_is_refused() {
    let mut writer = Writer::new(Vec::new(), 2).unwrap();
    for task in 0..70_000 {
        writer.wake(&Wake { at_ns: 1, task, waker: 0, previous: 0, idle: 3, chosen: 0 }).unwrap();
    }
    let text = writer.finish(0).unwrap();
    let error = replayed(&text[..]).unwrap_err().to_string();
    assert_eq!(error, "line 65540: more than 65536 tasks; record a shorter time");
}

fn cases(quick: bool) -> Vec<Case> {
    let plan = EXPERIMENT.plan(&Options { quick, ..Options::default() });
    plan.into_iter().map(|planned| planned.case).collect()
}

#[test]
fn every_point_is_there_once_and_can_be_sampled() {
    for quick in [true, false] {
        let cases = cases(quick);
        let mut names: Vec<String> = cases.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len());
        for case in cases {
            let effort = Effort { rounds: 500, limit: std::time::Duration::MAX };
            let sample = EXPERIMENT.sample(&case, effort).unwrap_or_else(|error| panic!("{error}"));
            let stats: Vec<_> =
                sample.readings.iter().map(|reading| reading.stat.as_deref().unwrap()).collect();
            assert_eq!(stats[..4], ["wakes", "migrations", "swaps", "unintended"], "{case}");
            assert!(sample.readings.iter().all(|reading| reading.value.is_finite()), "{case}");
        }
    }
}

#[test]
fn a_point_that_there_is_not_is_refused() {
    let effort = Effort { rounds: 1, limit: std::time::Duration::MAX };
    let params = || Params::new().with("cpus", 4u64).with("flows", 4u64).with("rate", 100u64);
    let refused = |method: &str, params: Params| {
        let case = Case { experiment: "follow-sim".into(), method: method.into(), params };
        EXPERIMENT.sample(&case, effort).is_err()
    };
    assert!(!refused("existing", params().with("lag", 1u64).with("seed", 7u64)));
    assert!(refused("existing", params()));
    assert!(refused("nonsense", params().with("lag", 1u64)));
    assert!(refused("existing", params().with("lag", u64::MAX)));
    assert!(refused("existing", params().with("steering", "nonsense")));
    assert!(refused("existing", params().with("lag", 1u64).with("cpus", 70_000u64)));
    assert!(refused("existing", params().with("lag", 1u64).with("seed", "x")));
    assert!(refused("existing", params().with("lag", 1u64).with("burst", 0u64)));
    assert!(!refused("existing", params().with("lag", 0u64).with("set", "guest")));
    assert!(refused("existing", params().with("lag", 0u64).with("set", "nonsense")));
    assert!(refused("existing", params().with("lag", 0u64).with("set", 1u64)));
}

/// A model is simulated with the parameters that its point names.
#[test]
fn a_point_has_the_parameters_of_its_set() {
    for (set, model) in held_out::models() {
        assert_eq!(from_params(&params(set, &model), model.policy), Some(model));
        model.check().unwrap();
    }
}

/// Checks the statements about parameters that were not searched for P3's figures.
#[test]
fn parameters_of_other_origin_save_migrations_without_p3s_part_of_swaps() {
    for (set, model) in held_out::models() {
        let run = |policy| simulate(&Model { policy, ..model }, 200_000).unwrap().tally;
        let (existing, follow) = (run(WakePolicy::Existing), run(WakePolicy::FOLLOW));
        let of_wakes = |tally: &WakeTally| tally.per_thousand(tally.migrations());
        assert!(of_wakes(&follow) < 0.9 * of_wakes(&existing), "{set:?}");
        assert!(existing.unintended() < 0.04, "{set:?}: {}", existing.unintended());
        assert!(existing.returns.is_sorted() && existing.swaps <= existing.returns[0], "{set:?}");
        assert_eq!(follow.swaps, 0, "{set:?}");
    }
}

/// Checks the figures of the paper, each within a tenth, under the assumptions of the module's
/// text.
#[test]
fn the_figures_of_p3_appear_under_the_models_assumptions() {
    let packets = if cfg!(debug_assertions) { 500_000 } else { 2_000_000 };
    let run = |policy| simulate(&Model { policy, ..Model::default() }, packets).unwrap();
    let (existing, follow) = (run(WakePolicy::Existing), run(WakePolicy::FOLLOW));
    let rate = |outcome: &SimOutcome| outcome.tally.migrations() as f64 / outcome.seconds();
    for (name, found, published) in [
        ("unintended", existing.tally.unintended(), published::value("existing", "unintended")),
        (
            "settle-mean",
            existing.tally.settle_mean().unwrap(),
            published::value("existing", "settle-mean"),
        ),
        ("migrations", rate(&follow) / rate(&existing), published::value("follow", "migrations")),
    ] {
        let factor = found / published.unwrap();
        assert!((0.9..1.1).contains(&factor), "{name}: {found}, published {published:?}");
    }
    assert!((5..=12).contains(&existing.tally.settle_max()), "{}", existing.tally.settle_max());
}
