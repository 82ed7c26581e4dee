//! Verdicts of `daiko pair`'s classifier on programs of known class.

use daiko_pair::Class;

use super::label;
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

/// Least sureness of each row of the calibration.
const SURE: [f64; 4] = [0.945, 0.75, 0.5, 0.0];

const TEXT: &str = "Verdicts of daiko pair on programs of known class, by samples of where they \
     are (P4). Rows are the true classes of the programs, columns are the verdicts of most looks \
     at them. Thresholds were chosen by the training half. The programs of looked were a test \
     until the first verdict (20 of 23 right) showed possible improvements. Programs that may \
     stall run beside the same work without a reason to stall: a step that takes 2.5 times as long \
     is a stall, one that takes up to 1.5 times as long is not, and between these a program has no \
     label. P4's own tasks are libpmem-memmove and same-writes-dram, which stall, and idiv, \
     matrix-product and matrix-sum, which compute.";

/// A program and the classifier's verdicts on it.
pub(in crate::experiments) struct Judged<'a> {
    pub(in crate::experiments) program: String,
    /// Its half or its group.
    pub(in crate::experiments) part: &'a str,
    /// The label, or `None` between the classes.
    pub(in crate::experiments) label: Option<&'static str>,
    pub(in crate::experiments) ratio: Option<f64>,
    is_trap: bool,
    /// Classification of most looks.
    pub(in crate::experiments) said: Option<&'static str>,
    /// Whether all looks agree.
    agree: bool,
    pub(in crate::experiments) sure: Option<f64>,
}

impl<'a> Judged<'a> {
    /// Builds it from the points of one case, with the parameter that names its part.
    pub(in crate::experiments) fn of(
        program: String,
        part: &str,
        about: &Points<'a>,
    ) -> Option<Self> {
        let params = &about.first()?.params;
        let stat = |name: &str| about.with("stat", name);
        let said_so = |name: &str| stat(&format!("said-{name}")).first();
        let said = CLASSES.iter().map(|(_, name)| *name);
        let mut most =
            said.clone().filter(|name| said_so(name).is_some_and(|point| point.median > 0.5));
        let ratio = stat("ratio").median();
        let named = || {
            let name = params.text("label")?;
            CLASSES.iter().map(|(_, known)| *known).find(|known| *known == name)
        };
        Some(Self {
            program,
            part: params.text(part)?,
            label: ratio.map_or_else(named, |ratio| label::by_ratio(ratio).map(class_name)),
            ratio,
            is_trap: params.text("trap") == Some("yes"),
            said: most.next(),
            agree: said
                .clone()
                .all(|name| said_so(name).is_none_or(|point| point.min == point.max)),
            sure: stat("sure").median(),
        })
    }

    fn is_right(&self) -> bool {
        self.said == self.label
    }

    /// Returns true for a class that is not the label.
    fn is_wrong(&self) -> bool {
        !self.is_right() && self.said != Some(class_name(Class::Unknown))
    }
}

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let points = results.of(NAME).method(SAMPLING);
    let programs = points.texts("program").into_iter();
    let judged: Vec<Judged<'_>> = programs
        .filter_map(|program| Judged::of(program.into(), "half", &points.with("program", program)))
        .collect();
    let halves = Half::all().map(Half::name);
    section("Stalling and computing programs", TEXT, halves, &judged)
}

/// Builds a table for each part, and the calibration.
pub(in crate::experiments) fn section(
    title: &str,
    text: &str,
    names: impl Iterator<Item = &'static str>,
    judged: &[Judged<'_>],
) -> Vec<Section> {
    if judged.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Part::Text(text.into())];
    for name in names {
        let of_part: Vec<&Judged<'_>> = judged.iter().filter(|one| one.part == name).collect();
        let labelled: Vec<_> = of_part.iter().copied().filter(|one| one.label.is_some()).collect();
        if !of_part.is_empty() {
            parts.push(Part::Table(confusion(name, &labelled)));
            parts.push(Part::Hint(exceptions(&labelled, &of_part)));
        }
    }
    parts.push(Part::Table(calibration(judged)));
    vec![Section::Titled(title.into(), parts)]
}

fn confusion(part: &str, judged: &[&Judged<'_>]) -> DataTable {
    let right = |judged: &[&Judged<'_>]| judged.iter().filter(|one| one.is_right()).count();
    let traps: Vec<&Judged<'_>> = judged.iter().copied().filter(|one| one.is_trap).collect();
    let of_traps = match traps.len() {
        0 => String::new(),
        all => format!(", of traps {} of {all}", right(&traps)),
    };
    let title = format!("{part}: {} of {} right{of_traps}", right(judged), judged.len());
    let row = |(_, label): (Class, &str)| {
        let count = |(_, said)| {
            let is_it = |one: &&&Judged<'_>| one.label == Some(label) && one.said == Some(said);
            judged.iter().filter(is_it).count().to_string().into()
        };
        [label.into()].into_iter().chain(CLASSES.map(count)).collect()
    };
    let heads = CLASSES.map(|(_, name)| format!("said {name}"));
    DataTable::new(title, ["is"], heads).captioned().with_rows(CLASSES.map(row))
}

fn exceptions(labelled: &[&Judged<'_>], all: &[&Judged<'_>]) -> String {
    let list = |judged: &[&Judged<'_>], is: &dyn Fn(&Judged<'_>) -> bool| {
        let names: Vec<&str> =
            judged.iter().filter(|one| is(one)).map(|one| one.program.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (wrong, wavering) = (list(labelled, &|one| !one.is_right()), list(all, &|one| !one.agree));
    let between = list(all, &|one| one.label.is_none());
    format!("Wrong: {wrong}. Looks do not all agree: {wavering}. Between the classes: {between}.")
}

/// Classes by their stated sureness, and how many are right.
fn calibration(judged: &[Judged<'_>]) -> DataTable {
    let unknown = class_name(Class::Unknown);
    let mut most = f64::INFINITY;
    let rows = SURE.map(|least| {
        let range = least..std::mem::replace(&mut most, least);
        let count = |is: &dyn Fn(&Judged<'_>) -> bool| {
            let of_row = |one: &&Judged<'_>| {
                one.sure.is_some_and(|sure| range.contains(&sure))
                    && one.label.is_some()
                    && one.said.is_some_and(|said| said != unknown)
            };
            judged.iter().filter(of_row).filter(|one| is(one)).count().to_string().into()
        };
        let head = format!("{:.0} %", least * 100.0);
        vec![
            head.into(),
            count(&|_| true),
            count(&|one| one.is_right()),
            count(&|one| one.is_wrong()),
        ]
    });
    let heads = ["classes", "right", "wrong"];
    DataTable::new("classes by their stated sureness", ["at least"], heads)
        .captioned()
        .with_rows(rows)
}
