//! Accuracy of `daiko pair`'s verdicts on the use that programs make of a core.
//!
//! 1. The tasks belong to a half by a hash of their name; it was fixed before the first threshold
//!    was chosen. Thresholds were chosen by the training half; the test half is for the verdict on
//!    them. In the first verdict 20 of 23 were right. Two of the mistakes had a cause that could be
//!    removed, so those 23 are no test any more (`looked`). Twenty more tasks were added and
//!    divided before the classifier had seen one of them. Since then persistence in loops was
//!    repaired by the results on a processor of another vendor, so all tasks have been seen.
//! 2. Tasks that may stall are labelled by experiment: they run beside the same work with data that
//!    caches hold, or without flushes. A step that takes 2.5 times as long is a stall, one that
//!    takes up to 1.5 times as long is not, and between these the task has no label. The class of
//!    other tasks follows from their construction.
//! 3. A sample starts a program, waits until it has prepared, and takes one look at its thread.
//! 4. Every verdict that differs from the label is wrong, including `unknown`.
//! 5. P4's own tasks are among the programs: `libpmem-memmove` and `same-writes-dram` stall,
//!    `idiv`, `matrix-product` and `matrix-sum` compute.
//!
//! | parameter | |
//! |---|---|
//! | `program` | its name |
//! | `half` | `training`, `looked`, `test` |
//! | `label` | `stall`, `compute`, `unknown`: by construction; the ratio overrules it |
//! | `trap` | `yes` for programs that look like another class |
//! | `stat` | `said-stall`, `said-compute`, `said-unknown`: 1 if so; `sure`; `ratio`; `look` |
//!
//! `ratio` is the result of the experiment for the label, `look` the CPU time of a look.
//!
//! The method `sampling` decides for running threads; `mappings` shows the verdicts that are
//! possible without it. [`smt_programs`](crate::experiments::smt_programs) does the same with
//! programs of other authors.

pub(super) mod figures;
pub(super) mod judgement;
pub(super) mod label;
mod programs;
pub(super) mod run;

use daiko_pair::class::{Evidence, Unavailable, decide};

use self::figures::{SAMPLING, class_name};
use self::judgement::{Judgement, by_sampling, look};
use self::programs::{Program, ProgramRun};
use self::run::Running;
use crate::kit::{Experiment, Failure, Measure, Params, Plan, Rounds};

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
    Some(Box::new(move |_| judge(program, method)?.sample()))
}

/// Judges a task.
fn judge(program: &Program, method: &str) -> Result<Judgement, Failure> {
    let mut running = Running::start(program)?;
    let (evidence, look_ns) = look(&running)?;
    let classification = match (method, &evidence.profile) {
        (SAMPLING, _) => by_sampling(&evidence)?,
        _ => {
            let profile = Err(Unavailable("left out".into()));
            decide(None, &Evidence { profile, ..evidence })
        }
    };
    let beside = match program.run {
        ProgramRun::Own { beside: Some(body), .. } if method == SAMPLING => Some(body),
        _ => None,
    };
    let ratio =
        beside.map(|body| label::ratio(&mut running, Running::start_own(program.name, body)?));
    Ok(Judgement { classification, ratio: ratio.transpose()?, look_ns })
}

#[cfg(test)]
mod tests;
