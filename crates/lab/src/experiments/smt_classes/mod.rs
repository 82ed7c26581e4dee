//! Accuracy of `daiko pair`'s verdicts on the use that programs make of a core.
//!
//! 1. The programs have labels, and belong to a half by a hash of their name; both were fixed
//!    before the first threshold was chosen. Thresholds were chosen by the training half; the test
//!    half is for the verdict on them. In the first verdict 20 of 23 were right. Two of the
//!    mistakes had a cause that could be removed, so those 23 are no test any more (`looked`).
//!    Twenty more programs were added, labelled and divided before the classifier had seen one of
//!    them.
//! 2. A sample starts a program, waits until it has prepared, and takes one look at its thread.
//! 3. Every verdict that differs from the label is wrong, including `unknown`.
//! 4. P4's own tasks are among the programs: `libpmem-memmove` and `same-writes-dram` stall,
//!    `idiv`, `matrix-product` and `matrix-sum` compute.
//!
//! | parameter | |
//! |---|---|
//! | `program` | its name |
//! | `half` | `training`, `looked`, `test` |
//! | `label` | `stall`, `compute`, `unknown` |
//! | `trap` | `yes` for programs that look like another class |
//! | `stat` | `right` and `said-stall`, `said-compute`, `said-unknown`: 1 if so; `look`: CPU time |
//!
//! The method `sampling` decides for running threads; `mappings` shows the verdicts that are
//! possible without it.

mod figures;
mod programs;
mod run;

use std::time::Duration;

use daiko_pair::Class;
use daiko_pair::class::{Classification, Evidence, Look, Unavailable, decide};
use daiko_sys::clock::thread_cpu_ns;

use self::figures::{CLASSES, SAMPLING, class_name};
use self::programs::Program;
use self::run::Running;
use crate::kit::{Experiment, Failure, Measure, Params, Plan, Reading, Rounds, Sample, Unit, host};

const MAPPINGS: &str = "mappings";
const METHODS: [&str; 2] = [SAMPLING, MAPPINGS];

/// The classifier of `daiko pair`, judged.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "how often daiko pair is right about programs that stall or compute (P4), traps among them",
    sizes: &[],
    lists: &[],
    methods: || METHODS.into(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

fn cases(plan: &mut Plan<'_>) {
    for method in METHODS {
        for program in programs::ALL {
            let params = Params::new()
                .with("program", program.name)
                .with("half", program.half())
                .with("label", class_name(program.label))
                .with("trap", if program.trap { "yes" } else { "no" });
            plan.add(method, params, program.require_available().map(|()| Rounds::Fixed(1)));
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = METHODS.into_iter().find(|known| *known == method)?;
    let name = params.text("program")?;
    let program = const { programs::ALL }.iter().find(|program| program.name == name)?;
    Some(Box::new(move |_| {
        let (classification, cpu_ns) = judge(program, method)?;
        let mut readings = readings(program, &classification);
        readings.push(Reading::stat(Unit::Nanoseconds, "look", cpu_ns as f64));
        Ok(Sample { rounds: 1, elapsed: Duration::from_nanos(cpu_ns), readings })
    }))
}

/// Returns the classifier's verdict on a running program, and its CPU time in nanoseconds.
fn judge(program: &Program, method: &str) -> Result<(Classification, u64), Failure> {
    let running = Running::start(program)?;
    let machine = host::topology()?;
    let before = thread_cpu_ns();
    let evidence = Look::here(Some(&machine))
        .at(&[(running.pid(), running.pid())], &mut std::thread::sleep)
        .remove(0);
    let cpu_ns = thread_cpu_ns() - before;
    running.check_running()?;
    let classification = match (method, &evidence.profile) {
        (SAMPLING, Err(Unavailable(why))) => return Err(Failure::Unavailable(why.clone())),
        (SAMPLING, Ok(_)) => decide(None, &evidence),
        _ => {
            let profile = Err(Unavailable("left out".into()));
            decide(None, &Evidence { profile, ..evidence })
        }
    };
    Ok((classification, cpu_ns))
}

fn readings(program: &Program, classification: &Classification) -> Vec<Reading> {
    let is = |stat: &str, is: bool| Reading::stat(Unit::Count, stat, f64::from(u8::from(is)));
    let said =
        |(class, name): (Class, &str)| is(&format!("said-{name}"), classification.class == class);
    let right = is("right", classification.class == program.label);
    std::iter::once(right).chain(CLASSES.map(said)).collect()
}

#[cfg(test)]
mod tests;
