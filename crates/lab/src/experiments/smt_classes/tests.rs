use daiko_pair::Class;
use daiko_pair::class::Classification;

use super::*;
use crate::kit::{Case, Effort, Host, Options};
use crate::runner::{Measured, Schedule, Series};
use crate::testing::child::in_child_well;

/// Runs `body` in a new process, as the runner does with a sample.
///
/// Programs are forked from the process that judges them. In the process of all tests they would
/// inherit the mappings of other tests, including libpmem, and mappings are evidence for the
/// classifier.
#[track_caller]
fn alone(test: &str, body: fn()) {
    in_child_well(&format!("experiments::smt_classes::tests::{test}"), body);
}

fn program(name: &str) -> &'static Program {
    const { programs::ALL }.iter().find(|program| program.name == name).expect("of the list")
}

/// Returns the verdict, or `None` if this machine lacks a requirement.
fn judged(name: &str, method: &str) -> Option<Classification> {
    let skipped = |why: &str| {
        println!("skipped: {name}: {why}");
        None
    };
    if let Err(skip) = program(name).require_available() {
        return skipped(&skip.reason);
    }
    match judge(program(name), method) {
        Ok(judgement) => Some(judgement.classification),
        Err(Failure::Unavailable(why)) => skipped(&why),
        Err(failure) => panic!("{name}: {failure}"),
    }
}

#[test]
fn every_program_prepares_and_goes_on() {
    alone("every_program_prepares_and_goes_on", || {
        for program in programs::ALL {
            if let Err(skip) = program.require_available() {
                println!("skipped: {}: {}", program.name, skip.reason);
                continue;
            }
            let running = Running::start(program);
            let running = running.unwrap_or_else(|failure| panic!("{}: {failure}", program.name));
            running.check_running().unwrap();
        }
    });
}

/// Uses programs with the same code in all builds. In unoptimised code it is not clear which
/// instructions persist.
#[test]
fn clear_cases_are_told_apart() {
    alone("clear_cases_are_told_apart", || {
        let expected = [
            ("idiv", Class::Compute),
            ("sha256sum", Class::Compute),
            ("sleep", Class::Unknown),
            ("persist-assembly", Class::Stall),
        ];
        for (name, class) in expected {
            let Some(classification) = judged(name, SAMPLING) else { continue };
            assert_eq!(classification.class, class, "{name}: {}", classification.why);
        }
    });
}

#[test]
fn mappings_reveal_programs_that_could_stall() {
    alone("mappings_reveal_programs_that_could_stall", || {
        for (name, class) in [("libpmem-counter", Class::Stall), ("idiv", Class::Unknown)] {
            let Some(classification) = judged(name, MAPPINGS) else { continue };
            assert_eq!(classification.class, class, "{name}: {}", classification.why);
        }
    });
}

#[test]
fn a_program_that_ends_early_says_so() {
    alone("a_program_that_ends_early_says_so", || {
        let broken = Program {
            name: "broken",
            label: Class::Unknown,
            trap: false,
            run: programs::ProgramRun::Own {
                needs: || Ok(()),
                body: |_| Err(std::io::Error::from_raw_os_error(libc::ENOSPC)),
                beside: None,
            },
        };
        let failure = Running::start(&broken).err().expect("it ends");
        assert!(failure.to_string().contains("No space left"), "{failure}");
    });
}

#[test]
fn a_point_is_sampled_and_an_unknown_point_is_refused() {
    alone("a_point_is_sampled_and_an_unknown_point_is_refused", || {
        let plan = EXPERIMENT.plan(&Options::default());
        assert_eq!(plan.len(), 2 * programs::ALL.len());
        let effort = Effort { rounds: 1, limit: std::time::Duration::from_secs(5) };
        let sleep = plan.iter().find(|one| one.case.params.text("program") == Some("sleep"));
        let case = &sleep.expect("of the list").case;
        match EXPERIMENT.sample(case, effort) {
            Ok(sample) => {
                let of = |stat: &str| {
                    let found =
                        sample.readings.iter().find(|one| one.stat.as_deref() == Some(stat));
                    found.map(|reading| reading.value)
                };
                assert_eq!((of("said-unknown"), of("said-stall")), (Some(1.0), Some(0.0)));
            }
            Err(Failure::Unavailable(why)) => println!("skipped: {why}"),
            Err(failure) => panic!("{failure}"),
        }
        for wrong in [
            Case { method: "guess".into(), ..case.clone() },
            Case { params: Params::new().with("program", "none"), ..case.clone() },
        ] {
            assert!(EXPERIMENT.sample(&wrong, effort).is_err(), "{wrong}");
        }
    });
}

#[test]
fn the_report_shows_the_class_of_each_program() {
    let series = |name: &str, ratio: Option<f64>, said: &[Class]| {
        let classification =
            |class| Classification { class, confidence: 0.8, ..Classification::unknown("") };
        let sample = |class: &Class| {
            let classification = classification(*class);
            Judgement { classification, ratio, look_ns: 1 }.sample().unwrap()
        };
        let plan = EXPERIMENT.plan(&Options::default()).into_iter().map(|planned| planned.case);
        let mut own = plan.filter(|case| case.params.text("program") == Some(name));
        let case = own.next().expect("it is sampled");
        let effort = Effort { rounds: 1, limit: Schedule::QUICK.limit };
        Series { case, effort, samples: said.iter().map(sample).collect(), conditions: vec![] }
    };
    let (stall, compute) = (Class::Stall, Class::Compute);
    let measured = Measured {
        series: vec![
            series("chase-cached", None, &[compute; 3]),
            series("probe-dram", Some(9.0), &[compute, stall, compute]),
            series("scatter-dram", Some(2.0), &[compute; 3]),
            series("idiv", None, &[compute; 3]),
        ],
        ..Measured::default()
    };
    let page = crate::report::html(&measured.results(Host::detect(), Schedule::QUICK));
    assert!(page.contains("training: 1 of 2 right, of traps 1 of 2"), "{page}");
    assert!(page.contains("looked: 1 of 1 right<"), "{page}");
    assert!(page.contains("Wrong: probe-dram. Looks do not all agree: probe-dram."), "{page}");
    assert!(page.contains("Between the classes: scatter-dram."), "{page}");
    // The verdicts of both halves, and the wrong one among three of that sureness.
    let rows: Vec<&str> = page.matches("<td>1</td>").collect();
    assert_eq!(rows.len(), 4);
    assert!(page.contains("<td>3</td><td>2</td><td>1</td>"), "{page}");
}
