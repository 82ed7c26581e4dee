//! Properties that all predictions of the model must have, and its agreement with P4.

use daiko_core::place::{Class, SiblingUse, Site, Task, assign, can_cross};
use proptest::prelude::*;

use super::network::tests::demands;
use super::predict::{MACHINE, THREADS_OF_CORE, shared_rates};
use super::*;
use crate::kit::p4::comparison::{Comparison, Sign, comparisons, conclusions};
use crate::kit::{Case, Effort, Host, Options, Results};
use crate::runner::{Measured, Schedule, Series};

proptest! {
    /// Covers each of two IO tasks, and each CPU task.
    #[test]
    fn no_task_is_faster_in_a_setting_than_alone(io in demands(), cpu in demands()) {
        for setting in Setting::all() {
            let found = predict(setting, io, cpu);
            let tasks = setting.pairs(&MACHINE).len() as f64;
            prop_assert!(found.io_rate <= tasks / io.total() * (1.0 + 1e-9), "{:?}", setting);
            let least = setting.work() as f64 * cpu.total();
            prop_assert!(found.cpu_time >= least * (1.0 - 1e-9), "{:?}", setting);
        }
    }

    /// If both tasks have the same demand, the choice of the partner does not matter.
    #[test]
    fn tasks_that_are_alike_make_cross_and_parallel_alike(demand in demands()) {
        let (cross, parallel) =
            (predict(Setting::Cross, demand, demand), predict(Setting::Parallel, demand, demand));
        prop_assert!((cross.io_rate / parallel.io_rate - 1.0).abs() < 1e-9);
        prop_assert!((cross.cpu_time / parallel.cpu_time - 1.0).abs() < 1e-9);
    }

    /// Tasks that share nothing outside of a core have half of its time each.
    #[test]
    fn a_thread_that_two_share_is_shared_evenly(io in demands(), cpu in demands()) {
        let own = |demand| Demand { dram: 0.0, pmem: 0.0, ..demand };
        let (io, cpu) = (own(io), own(cpu));
        for setting in [Setting::NoSmt2tCross, Setting::NoSmt2tParallel] {
            let found = predict(setting, io, cpu);
            prop_assert!((found.io_rate * io.total() - 1.0).abs() < 1e-9);
            prop_assert!((found.cpu_time / cpu.total() - 2.0).abs() < 1e-9);
        }
    }
}

#[test]
fn stalls_beside_work_cost_nothing_and_work_beside_work_costs_double() {
    let stall = Demand { alone: 7.0, ..Demand::default() };
    let work = Demand { slots: 3.0, ..Demand::default() };
    let cross = predict(Setting::Cross, stall, work);
    assert!((cross.io_rate - 2.0 / 7.0).abs() < 1e-12);
    assert_eq!((cross.cpu_time, predict(Setting::Parallel, stall, work).cpu_time), (3.0, 6.0));
    assert_eq!(predict(Setting::NoSmt, stall, work).cpu_time, 6.0, "the work of two");
}

#[test]
fn every_part_of_a_tasks_time_is_there() {
    for (name, demand) in tasks::pairs().into_iter().flat_map(|pair| [pair.io, pair.cpu]) {
        let Demand { slots, divider, buffers, dram, pmem, alone } = demand;
        let parts = [slots, divider, buffers, dram, pmem, alone];
        assert!(parts.iter().all(|part| *part >= 0.0), "{name}: {demand:?}");
        assert!(slots > 0.0 && demand.total() > slots, "{name}: {demand:?}");
    }
}

/// All placements of so many tasks on the threads of the model with which threads and cores are
/// even.
fn even_placements(tasks: usize) -> Vec<Vec<usize>> {
    let threads = MACHINE.0.as_flattened().len();
    let all = (0..threads.pow(tasks as u32)).map(|number| {
        let digit = |task| number / threads.pow(task as u32) % threads;
        (0..tasks).map(digit).collect::<Vec<usize>>()
    });
    let is_even = |placed: &[usize], share: usize| {
        let load = |one| placed.iter().filter(|thread| **thread / share == one).count();
        let loads = || (0..threads / share).map(load);
        loads().max().unwrap_or(0) - loads().min().unwrap_or(0) <= 1
    };
    all.filter(|placed| is_even(placed, 1) && is_even(placed, THREADS_OF_CORE)).collect()
}

/// The mean speed of tasks in all of these placements, compared with each alone on the machine.
fn speed(tasks: &[Demand], placements: &[Vec<usize>]) -> f64 {
    let speed = |placed: &Vec<usize>| -> f64 {
        let placed: Vec<_> = placed.iter().copied().zip(tasks.iter().copied()).collect();
        let rates = shared_rates(&placed);
        rates.iter().zip(tasks).map(|(rate, task)| rate * task.total()).sum()
    };
    placements.iter().map(speed).sum::<f64>() / placements.len() as f64
}

/// Compares placement where that is no risk with chance, for up to six tasks. No mix loses, and
/// some gain.
#[test]
fn placement_harms_no_mix_of_tasks() {
    let sites: Vec<_> =
        (0..4).map(|thread| Site { core: thread / THREADS_OF_CORE, node: 0 }).collect();
    let counts = (1..=6_usize).flat_map(|all| (0..=all).map(move |io| (io, all - io)));
    let demands = || tasks::pairs().into_iter().map(|pair| (pair.io.1, pair.cpu.1));
    let mut most: f64 = 0.0;
    for (io_count, cpu_count) in counts {
        let classes = [vec![Class::Stall; io_count], vec![Class::Compute; cpu_count]].concat();
        let tasks: Vec<_> = classes.into_iter().map(|class| Task { class, at: None }).collect();
        if !can_cross(&sites, &tasks) {
            continue;
        }
        let chance = even_placements(tasks.len());
        let core = |thread: &usize| *thread / THREADS_OF_CORE;
        let cores: Vec<_> = assign(SiblingUse::Cross, &sites, &tasks).iter().map(core).collect();
        // Tasks are bound to cores, not to threads.
        let own: Vec<_> = chance
            .iter()
            .filter(|placed| placed.iter().map(core).eq(cores.clone()))
            .cloned()
            .collect();
        for (io, cpu) in demands() {
            let demands = [vec![io; io_count], vec![cpu; cpu_count]].concat();
            let gain = speed(&demands, &own) / speed(&demands, &chance);
            assert!(gain >= 0.98, "{io_count} of {io:?}, {cpu_count} of {cpu:?}: {gain}");
            most = most.max(gain);
        }
    }
    assert!(most > 1.1, "{most}");
}

/// All points, as in a run of the lab.
fn results() -> Results {
    let effort = Effort { rounds: 1, limit: std::time::Duration::ZERO };
    let series = |case: Case| {
        let sample = EXPERIMENT.sample(&case, effort).expect("a point");
        Series { case, effort, samples: vec![sample], conditions: vec![] }
    };
    let plan = EXPERIMENT.plan(&Options::default());
    let series = plan.into_iter().map(|planned| series(planned.case)).collect();
    Measured { series, ..Measured::default() }.results(Host::detect(), Schedule::QUICK)
}

#[test]
fn the_same_is_predicted_each_time() {
    let (one, other) = (results(), results());
    assert_eq!(one.points, other.points);
    assert_eq!(one.measured().count(), (5 * 2 * 3 + 3 * 2) * 2);
}

#[test]
fn points_that_there_are_not_are_refused() {
    let effort = Effort { rounds: 1, limit: std::time::Duration::ZERO };
    let plan = EXPERIMENT.plan(&Options::default());
    let case = &plan[0].case;
    let other = |key: &str| Case { params: case.params.clone().with(key, "x"), ..case.clone() };
    for wrong in [other("io"), other("cpu"), Case { method: "x".into(), ..case.clone() }] {
        assert!(EXPERIMENT.sample(&wrong, effort).is_err(), "{wrong}");
    }
}

/// Errors of the model, of the times or throughputs of all settings except `cross`: the median and
/// the maximum.
fn errors(all: &[Comparison], stat: &str) -> [f64; 2] {
    let error = |one: &Comparison| Some((one.here.median / one.published?.median - 1.0).abs());
    let own = all.iter().filter(|one| one.stat == stat && !one.is_deduced());
    let mut errors: Vec<f64> = own.filter_map(error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    [errors[errors.len() / 2], errors[errors.len() - 1]]
}

/// Checks the statements of the model's text. No parameter is chosen by it.
#[test]
fn how_far_p4_agrees() {
    let all = comparisons(&results(), "smt-model");
    let (set2, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.io == "rbtree");
    let agrees = |is_own: &dyn Fn(&Comparison) -> bool| {
        let signs: Vec<bool> =
            all.iter().filter(|one| is_own(one)).filter_map(Comparison::agrees).collect();
        (signs.iter().filter(|agrees| **agrees).count(), signs.len())
    };
    let is_without_smt = |one: &Comparison| one.setting != Setting::Parallel;
    assert_eq!(agrees(&|one| is_without_smt(one) && !one.is_deduced()), (12, 12));
    assert_eq!(agrees(&Comparison::is_deduced), (6, 6));
    for one in all.iter().filter(|one| one.is_deduced()) {
        let half_of_the_work = one.here.map(|value| value / 2.0);
        assert_eq!(Sign::of(half_of_the_work, CPU_TIME), Sign::Worse, "{one:?}");
    }
    assert_eq!(agrees(&|one| one.setting == Setting::Parallel), (5, 12));
    let near = |found: [f64; 2], told: [f64; 2]| {
        std::iter::zip(found, told).all(|(found, told)| (found - told).abs() < 0.005)
    };
    let (times, throughputs) = (errors(&all, CPU_TIME), errors(&all, IO_THROUGHPUT));
    assert!(
        near(times, [0.38, 0.56]) && near(throughputs, [0.17, 0.28]),
        "{times:?} {throughputs:?}"
    );
    let held = conclusions(&all).map(|conclusion| (conclusion.holds, conclusion.of));
    assert_eq!(held, [(3, 3), (2, 4), (3, 6), (6, 6)]);
    let signs = set2.iter().filter_map(Comparison::agrees);
    assert_eq!(signs.clone().filter(|agrees| *agrees).count(), 2, "of {}", signs.count());
    let parallel = |cpu: &str| {
        [CPU_TIME, IO_THROUGHPUT].map(|stat| {
            let is_it = |one: &&Comparison| {
                (one.cpu.as_str(), one.stat, one.setting) == (cpu, stat, Setting::Parallel)
            };
            set2.iter().find(is_it).expect("predicted").here.median
        })
    };
    assert!(near(parallel("core-bound"), [1.07, 1.05]), "{:?}", parallel("core-bound"));
    assert!(near(parallel("memory-bound"), [0.98, 0.98]), "{:?}", parallel("memory-bound"));
}

#[test]
fn every_figure_of_the_model_has_a_drawing_and_the_page_is_well_formed() {
    let drawings = crate::report::drawings(&results());
    let names: Vec<&str> = drawings.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["smt-model-time.svg", "smt-model-io.svg"]);
    for (name, svg) in drawings {
        let document = roxmltree::Document::parse(&svg).expect(name);
        let label = document.root_element().attribute("aria-label").expect("a label");
        assert!(label.contains("model"), "{name}: {label}");
    }
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let html = crate::report::html(&results());
    roxmltree::Document::parse_with_options(&html, options).expect("well-formed");
}
