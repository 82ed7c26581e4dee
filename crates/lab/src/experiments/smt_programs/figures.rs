//! Verdicts of `daiko pair`'s classifier on the programs.

use super::forms::Group;
use crate::experiments::smt_classes::figures::{Judged, section};
use crate::kit::{Choice, DataTable, Part, Results, Section};

/// The name of the experiment.
pub(super) const NAME: &str = "smt-programs";

const TEXT: &str = "Verdicts of daiko pair on small C programs (training, looked, test) \
     and on code of other authors (libraries, and held-out, which was first looked at when all \
     rules of the classifier but the last were chosen). Labels are by experiment, as for \
     smt-classes: the time of a step with a large working set or with flushes, relative to a small \
     one without.";

/// Builds the tables of `smt-classes`, and one of all programs.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let points = results.of(NAME);
    let mut judged = Vec::new();
    for (method, program) in points.methods().into_iter().flat_map(|method| {
        points.texts("program").into_iter().map(move |program| (method, program))
    }) {
        let about = points.method(method).with("program", program);
        for form in about.texts("form") {
            let name = format!("{program} {form} {method}");
            judged.extend(Judged::of(name, "group", &about.with("form", form)));
        }
    }
    let groups = Group::all().map(Group::name);
    let mut sections = section("Foreign programs", TEXT, groups, &judged);
    if let Some(Section::Titled(_, parts)) = sections.first_mut() {
        parts.push(Part::Table(list(&judged)));
    }
    sections
}

/// Each program with its ratio, label and verdict.
fn list(judged: &[Judged<'_>]) -> DataTable {
    let row = |one: &Judged<'_>| {
        vec![
            one.program.as_str().into(),
            one.part.into(),
            one.label.unwrap_or("between").into(),
            one.said.unwrap_or("varying").into(),
            one.ratio.map_or_else(String::new, |ratio| format!("{ratio:.1}")).into(),
            one.sure.map_or_else(String::new, |sure| format!("{:.0} %", sure * 100.0)).into(),
        ]
    };
    let (text, numbers) = (["program", "group", "label", "verdict"], ["ratio", "sure"]);
    DataTable::new("all programs", text, numbers).captioned().with_rows(judged.iter().map(row))
}
