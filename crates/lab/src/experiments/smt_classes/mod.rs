//! How often `daiko pair` is right about what a program does with its core.
//!
//! 1. The programs have labels, and belong to a half by a hash of their name, both fixed before the first
//!    threshold was chosen. Thresholds were chosen by the training half; the test half is for the verdict on them. The first
//!    verdict was that 20 of 23 are right; two of the mistakes had a cause that could be removed. So those 23 are no test any
//!    more (`looked`), and twenty more programs came, labelled and divided before the classifier had seen one of them.
//! 2. A sample starts a program, waits until it has prepared, and takes one look at its thread.
//! 3. Whatever is not its label is wrong, also `unknown`.
//! 4. P4's own tasks are among them: `libpmem-memmove` and `same-writes-dram` stall, `idiv`, `matrix-product` and `matrix-sum` compute.
//!
//! | parameter | |
//! |---|---|
//! | `program` | its name |
//! | `half` | `training`, `looked`, `test` |
//! | `label` | `stall`, `compute`, `unknown` |
//! | `trap` | `yes` for those that look like another class |
//! | `stat` | `right` and `said-stall`, `said-compute`, `said-unknown`: 1 if so; `look`: the CPU time of the look |
//!
//! The method `sampling` is what decides for threads that run; `mappings` shows what could be said without.

mod programs;
mod run;

use std::time::Duration;

use daiko_pair::{
    Class,
    class::{Evidence, Look, Unavailable, Verdict, decide},
};

use daiko_sys::{clock::thread_cpu_ns, topology::Topology};

use self::{programs::Program, run::Running};
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
    Skip, Unit, host,
};

/// The name in the command line and in results.
pub(crate) const NAME: &str = "smt-classes";
/// The classes, as they are called in parameters.
pub(crate) const CLASSES: [(Class, &str); 3] =
    [(Class::Stall, "stall"), (Class::Compute, "compute"), (Class::Unknown, "unknown")];
/// What programs were for when thresholds were chosen, as it is called in parameters.
pub(crate) const HALVES: [&str; 3] = ["training", "looked", "test"];
/// By where a thread is, again and again.
pub(crate) const SAMPLING: &str = "sampling";
const MAPPINGS: &str = "mappings";

/// The classifier of `daiko pair`, judged.
pub struct SmtClasses;

impl Experiment for SmtClasses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "how often daiko pair is right about programs that stall or compute (P4), traps among them"
    }

    fn methods(&self) -> Vec<&'static str> {
        vec![SAMPLING, MAPPINGS]
    }

    fn takes(&self, _: List) -> bool {
        false
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let methods = self.methods().into_iter().filter(|method| options.wants(method));
        methods
            .flat_map(|method| programs::ALL.iter().map(move |one| planned(method, one)))
            .collect()
    }

    fn sample(&self, case: &Case, _: Effort) -> Result<Sample, Failure> {
        let name = case.params.text("program");
        let program = const { programs::ALL }.iter().find(|program| Some(program.name) == name);
        let program = program.filter(|_| self.methods().contains(&case.method.as_str()));
        let program =
            program.ok_or_else(|| Failure::Broken(format!("{case}: there is no such point")))?;
        let (verdict, cpu_ns) = judge(program, &case.method)?;
        let mut readings = readings(program, &verdict);
        readings.push(Reading::stat(Unit::Nanoseconds, "look", cpu_ns as f64));
        Ok(Sample { rounds: 1, elapsed: Duration::from_nanos(cpu_ns), readings })
    }
}

fn planned(method: &str, program: &Program) -> Planned {
    let params = Params::new()
        .with("program", program.name)
        .with("half", program.half().name())
        .with("label", class_name(program.label))
        .with("trap", if program.trap { "yes" } else { "no" });
    let case = Case { experiment: NAME.into(), method: method.into(), params };
    Planned { case, rounds: program.is_there().map(|()| Rounds::Fixed(1)) }
}

fn class_name(class: Class) -> &'static str {
    CLASSES.iter().find(|(known, _)| *known == class).expect("all are listed").1
}

/// What the classifier says about a program that runs, and how much CPU time it took.
fn judge(program: &Program, method: &str) -> Result<(Verdict, u64), Failure> {
    let running = Running::start(program)?;
    let machine = Topology::read().map_err(|error| Failure::Unavailable(error.to_string()))?;
    let before = thread_cpu_ns();
    let evidence = Look::here(Some(&machine)).at(&[(running.pid(), running.pid())]).remove(0);
    let cpu_ns = thread_cpu_ns() - before;
    running.is_there_still()?;
    let verdict = match (method, &evidence.profile) {
        (SAMPLING, Err(Unavailable(why))) => return Err(Failure::Unavailable(why.clone())),
        (SAMPLING, Ok(_)) => decide(None, &evidence),
        _ => {
            let profile = Err(Unavailable("left out".into()));
            decide(None, &Evidence { profile, ..evidence })
        }
    };
    Ok((verdict, cpu_ns))
}

fn readings(program: &Program, verdict: &Verdict) -> Vec<Reading> {
    let is = |stat: &str, is: bool| Reading::stat(Unit::Count, stat, f64::from(u8::from(is)));
    let said = |(class, name): (Class, &str)| is(&format!("said-{name}"), verdict.class == class);
    let right = is("right", verdict.class == program.label);
    std::iter::once(right).chain(CLASSES.map(said)).collect()
}

impl Program {
    /// Whether this machine can run it.
    fn is_there(&self) -> Result<(), Skip> {
        match self.run {
            programs::Run::Own { needs, .. } => needs(),
            programs::Run::Installed { command, .. } => host::has_program(command[0]),
        }
    }
}

#[cfg(test)]
mod tests;
