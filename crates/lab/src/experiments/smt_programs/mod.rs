//! Accuracy of `daiko pair`'s verdicts on programs in C and on libraries, servers and interpreters
//! of other authors.
//!
//! 1. Each program has a small form and a large form. Programs that store persistently flush in
//!    their large form only. The times of a step in both forms decide the label, as for tasks of
//!    `smt-classes`; the small form of any other program computes.
//! 2. The groups `training`, `looked` and `test` are small programs that were written for this
//!    test, in the order in which the classifier has seen them. `libraries` and `held-out` spend
//!    their time in code of other authors, divided by name: every second one was held out. The
//!    last rule of the classifier was chosen after these had been looked at.
//! 3. A sample starts both forms and takes one look at the form of its case.
//!
//! | parameter | |
//! |---|---|
//! | `program` | its name |
//! | `form` | `small`, `large` |
//! | `group` | `training`, `looked`, `test`, `libraries`, `held-out` |
//! | `stat` | as for `smt-classes` |

mod figures;
mod forms;
mod list;

use std::time::Duration;

use self::forms::{Form, Level};
use self::list::{ForeignProgram, PROGRAMS};
use super::smt_classes::judgement::{Judgement, by_sampling, look};
use super::smt_classes::label;
use super::smt_classes::run::Running;
use crate::kit::{Choice, Experiment, Failure, Measure, Params, Plan, Rounds};

/// Time within which a sample ends: some programs fill gigabytes first.
const LIMIT: Duration = Duration::from_secs(240);

/// The classifier of `daiko pair`, judged by foreign code.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "how often daiko pair is right about C programs, libraries, servers and interpreters",
    sizes: &[],
    lists: &[],
    methods: || Level::NAMES.iter().map(|(_, name)| *name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

fn cases(plan: &mut Plan<'_>) {
    let levels = Level::all().filter(|level| *level == Level::Optimised || !plan.options.quick);
    for level in levels {
        for program in PROGRAMS.iter().filter(|program| program.can_be(level)) {
            for form in Form::all().filter(|form| program.has_class(*form)) {
                let params = Params::new()
                    .with("program", program.name)
                    .with("form", form)
                    .with("group", program.group);
                let rounds = program.require_available();
                let rounds = rounds.map(|()| Rounds::Within { rounds: 1, limit: LIMIT });
                plan.add(level.name(), params, rounds);
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let (level, form) = (Level::from_name(method)?, params.choice::<Form>("form")?);
    let name = params.text("program")?;
    let program = PROGRAMS.iter().find(|program| program.name == name)?;
    Some(Box::new(move |_| judge(program, level, form)?.sample()))
}

fn judge(program: &ForeignProgram, level: Level, form: Form) -> Result<Judgement, Failure> {
    let start = |form| Running::start_command(program.name, &mut program.command(level, form)?);
    let mut running = start(form)?;
    let (evidence, look_ns) = look(&running)?;
    let classification = by_sampling(&evidence)?;
    let ratio = match form {
        Form::Small => 1.0,
        Form::Large => label::ratio(&mut running, start(Form::Small)?)?,
    };
    Ok(Judgement { classification, ratio: Some(ratio), look_ns })
}
