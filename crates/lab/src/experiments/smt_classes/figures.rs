//! Verdicts of `daiko pair`'s classifier on programs of known class.

use daiko_pair::Class;

use super::programs::Half;
use crate::kit::{Choice, DataTable, Part, Points, Results, Section};

/// The name of the experiment.
pub(super) const NAME: &str = "smt-classes";

/// The method that decides for running threads: it samples where a thread is.
pub(super) const SAMPLING: &str = "sampling";

/// The classes and their names in parameters.
pub(super) const CLASSES: [(Class, &str); 3] =
    [(Class::Stall, "stall"), (Class::Compute, "compute"), (Class::Unknown, "unknown")];

pub(super) fn class_name(class: Class) -> &'static str {
    CLASSES.iter().find(|(known, _)| *known == class).expect("all are listed").1
}

const TEXT: &str = "Verdicts of daiko pair on programs of known class, by samples of where they \
     are (P4). Rows are the true classes of the programs, columns are the verdicts of most looks \
     at them. Thresholds were chosen by the training half. The programs of looked were a test \
     until the first verdict (20 of 23 right) showed possible improvements; test is for the \
     verdict only. P4's own tasks are libpmem-memmove and same-writes-dram, which stall, and idiv, \
     matrix-product and matrix-sum, which compute.";

/// A program and the classifier's verdicts on it.
struct Judged<'a> {
    program: &'a str,
    half: &'a str,
    label: &'a str,
    is_trap: bool,
    /// Classification of most looks.
    said: Option<&'static str>,
    /// Whether all looks agree.
    agree: bool,
}

impl<'a> Judged<'a> {
    /// Builds it from the points of this program.
    fn of(program: &'a str, points: &Points<'a>) -> Option<Self> {
        let about = points.with("program", program);
        let params = &about.first()?.params;
        let stat = |name: &str| about.with("stat", &*format!("said-{name}")).first();
        let said = CLASSES.iter().map(|(_, name)| *name);
        let mut most =
            said.clone().filter(|name| stat(name).is_some_and(|point| point.median > 0.5));
        Some(Self {
            program,
            half: params.text("half")?,
            label: params.text("label")?,
            is_trap: params.text("trap") == Some("yes"),
            said: most.next(),
            agree: said.clone().all(|name| stat(name).is_none_or(|point| point.min == point.max)),
        })
    }

    fn is_right(&self) -> bool {
        self.said == Some(self.label)
    }
}

/// Builds a table for each half.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let points = results.of(NAME).method(SAMPLING);
    let programs = points.texts("program").into_iter();
    let judged: Vec<Judged<'_>> =
        programs.filter_map(|program| Judged::of(program, &points)).collect();
    if judged.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Part::Text(TEXT.into())];
    for half in Half::all().map(Half::name) {
        let of_half: Vec<&Judged<'_>> = judged.iter().filter(|one| one.half == half).collect();
        if !of_half.is_empty() {
            parts.push(Part::Table(confusion(half, &of_half)));
            parts.push(Part::Hint(exceptions(&of_half)));
        }
    }
    vec![Section::Titled("Stalling and computing programs".into(), parts)]
}

fn confusion(half: &str, judged: &[&Judged<'_>]) -> DataTable {
    let right = |judged: &[&Judged<'_>]| judged.iter().filter(|one| one.is_right()).count();
    let traps: Vec<&Judged<'_>> = judged.iter().copied().filter(|one| one.is_trap).collect();
    let title = format!(
        "{half}: {} of {} right, of traps {} of {}",
        right(judged),
        judged.len(),
        right(&traps),
        traps.len()
    );
    let row = |(_, label): (Class, &str)| {
        let count = |(_, said)| {
            let is_it = |one: &&&Judged<'_>| one.label == label && one.said == Some(said);
            judged.iter().filter(is_it).count().to_string().into()
        };
        [label.into()].into_iter().chain(CLASSES.map(count)).collect()
    };
    let heads = CLASSES.map(|(_, name)| format!("said {name}"));
    DataTable::new(title, ["is"], heads).captioned().with_rows(CLASSES.map(row))
}

fn exceptions(judged: &[&Judged<'_>]) -> String {
    let list = |is: &dyn Fn(&Judged<'_>) -> bool| {
        let names: Vec<&str> = judged.iter().filter(|one| is(one)).map(|one| one.program).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (wrong, wavering) = (list(&|one| !one.is_right()), list(&|one| !one.agree));
    format!("Wrong: {wrong}. Looks do not all agree: {wavering}.")
}
