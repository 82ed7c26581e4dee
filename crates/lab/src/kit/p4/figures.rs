//! Code common to figures after P4, and their agreement with P4.

use super::comparison::{Comparison, Sign, conclusions, largest};
use super::published::{CPU_TIME, IO_THROUGHPUT};
use super::setting::Setting;
use crate::kit::{
    Bar, BarChart, BarGroup, Cell, Chart, Choice, DataTable, Drawing, Family, Part, Section, Spread,
};

/// Description of P4's settings for readers.
pub(crate) const TEXT: &str = "In P4, a task that stalls on memory (IO) shares a core with one \
     that computes (CPU), on the core's two hardware threads: cross. In parallel, the tasks of a \
     kind share a core. With nosmt there is one task of each kind, on a core of its own, and the \
     CPU task does the work of two; P4 does not state that, but its run times with nosmt imply it. \
     With nosmt-2t, two tasks share a hardware thread. All values are relative to those of cross.";

/// A kind of figure: its number in P4 for set 1 and set 2, its title, its axis.
pub(crate) struct FigureKind {
    pub(crate) stat: &'static str,
    pub(crate) numbers: [u32; 2],
    pub(crate) title: &'static str,
    pub(crate) axis: &'static str,
}

/// The two kinds of figures.
pub(crate) const KINDS: [FigureKind; 2] = [
    FigureKind {
        stat: CPU_TIME,
        numbers: [2, 6],
        title: "run time of CPU tasks",
        axis: "run time, of that of cross (less is better)",
    },
    FigureKind {
        stat: IO_THROUGHPUT,
        numbers: [3, 5],
        title: "throughput of IO tasks",
        axis: "throughput, of that of cross (more is better)",
    },
];

/// Name of the IO task, with the memory that it writes to if they differ.
pub(crate) fn named(one: &Comparison) -> String {
    match one.memory.as_deref() {
        Some(memory) if memory != one.io => format!("{} ({memory})", one.io),
        _ => one.io.clone(),
    }
}

pub(crate) fn family(setting: Setting) -> Family {
    match setting {
        Setting::Cross => Family::Ours,
        Setting::Parallel => Family::Peer,
        _ => Family::Kernel,
    }
}

/// Draws bars. Colours do not denote families here: bars bear their names.
pub(crate) fn bars(
    file: &'static str,
    title: String,
    text: String,
    kind: &FigureKind,
    groups: Vec<BarGroup>,
) -> Drawing {
    let (label, axis) = (title.clone(), kind.axis.into());
    let chart = BarChart { label, axis, reference: None, groups };
    Drawing { has_legend: false, ..Drawing::new(file, title, text, Chart::Bars(chart)) }
}

pub(crate) fn bar(name: String, family: Family, value: Spread) -> Bar {
    Bar { name, family, value }
}

/// Section on the agreement with P4: its conclusions, and the signs of its figures.
pub(crate) fn section(all: &[Comparison], title: &str, text: &str) -> Option<Section> {
    let held = conclusions(all).map(|conclusion| {
        let held = match conclusion.of {
            0 => "not measured".into(),
            of => format!("holds in {} of {of} cases", conclusion.holds),
        };
        format!("{}: {held}", conclusion.statement)
    });
    let published: Vec<&Comparison> =
        largest(all).into_iter().filter(|one| one.published.is_some()).collect();
    let heads = ["of cross, here", "of cross, P4", "cross here", "cross in P4", "sign"];
    let signs = DataTable::new(format!("{title}: signs"), ["tasks", "quantity", "setting"], heads);
    let parts = vec![
        Part::Text(TEXT.into()),
        Part::Hint(text.trim().into()),
        Part::List(held.into()),
        Part::Text(counted(&published)),
        Part::Table(signs.with_rows(published.iter().filter_map(|one| row(one)))),
    ];
    (!all.is_empty()).then(|| Section::Titled(title.into(), parts))
}

/// Sentence about the number of P4's figures with the same sign here.
fn counted(rows: &[&Comparison]) -> String {
    let disturbed = rows.iter().filter(|one| one.is_disturbed).count();
    // Number of figures, deduced or not, and number of them that agree.
    let count = |is_deduced: bool| {
        let own =
            || rows.iter().filter(move |one| !one.is_disturbed && one.is_deduced() == is_deduced);
        (own().count(), own().filter(|one| one.agrees() == Some(true)).count())
    };
    let ((own, agree), (deduced, deduced_agree)) = (count(false), count(true));
    format!(
        "Of {own} figures of P4, {agree} have the same sign here: cross is better, worse, or equal \
             within the range. Of {deduced} run times with nosmt, from which its work is deduced, \
             {deduced_agree} have. {disturbed} are left out, because their points have samples \
             that stayed disturbed."
    )
}

fn row(one: &Comparison) -> Option<Vec<Cell>> {
    let published = one.published?;
    let size = one.size.map_or(String::new(), |size| format!(" {size}"));
    let agreement = match one.agrees() {
        _ if one.is_disturbed => "disturbed",
        Some(true) if one.is_deduced() => "agrees (deduced)",
        Some(true) => "agrees",
        _ => "disagrees",
    };
    let value = |Spread { median, min, max, .. }: Spread| {
        Cell::from(format!("{median:.2}")).above(Some(format!("{min:.2}\u{2013}{max:.2}")))
    };
    let sign = |value| Sign::of(value, one.stat).to_string().into();
    Some(vec![
        format!("{} beside {}{size}", named(one), one.cpu).into(),
        one.stat.into(),
        one.setting.name().into(),
        value(one.here),
        value(published),
        sign(one.here),
        sign(published),
        agreement.into(),
    ])
}
