//! P4's figures 2 and 3 by the model, beside P4's values.

use crate::kit::p4::comparison::{Comparison, comparisons};
use crate::kit::p4::figures::{self, FigureKind, KINDS, TEXT, bar, bars, family};
use crate::kit::p4::published::MACHINE;
use crate::kit::{Bar, BarGroup, Choice, Drawing, Family, Results, Section, distinct};

/// The name of the experiment.
pub(super) const NAME: &str = "smt-model";

const MODEL: &str = "By a model of contention on P4's machine, not measured. P4's measurements \
     were not used to make it, except for the work of nosmt, which is deduced from its run times. It \
     is no evidence for cross against parallel, where its signs agree with P4's no more often than \
     chance would.";

const FILES: [&str; 2] = ["smt-model-time.svg", "smt-model-io.svg"];

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let modelled = comparisons(results, NAME);
    let found = figures::section(&modelled, "P4, by the model", MODEL);
    let drawing = |(kind, file): (&FigureKind, &'static str)| {
        let own: Vec<&Comparison> = modelled.iter().filter(|one| one.stat == kind.stat).collect();
        (!own.is_empty()).then(|| drawing(file, &own, kind))
    };
    let drawings = KINDS.iter().zip(FILES).filter_map(drawing).map(Section::Drawing);
    found.into_iter().chain(drawings).collect()
}

fn drawing(file: &'static str, own: &[&Comparison], kind: &FigureKind) -> Drawing {
    let pairs = distinct(own.iter().map(|one| (one.io.as_str(), one.cpu.as_str())));
    let group = |(io, cpu): (&str, &str)| BarGroup {
        name: format!("{io} beside {cpu}"),
        bars: own
            .iter()
            .filter(|one| (one.io.as_str(), one.cpu.as_str()) == (io, cpu))
            .flat_map(|one| predicted(one))
            .collect(),
    };
    let title = format!("P4, figure {}, by a model: {}", kind.numbers[0], kind.title);
    let text = format!("{MODEL} {TEXT} Published: {MACHINE}.");
    bars(file, title, text, kind, pairs.into_iter().map(group).collect())
}

/// Builds a bar of the model, and a bar of P4's value if there is one.
fn predicted(one: &Comparison) -> impl Iterator<Item = Bar> {
    let name = |source| format!("{}, {source}", one.setting.name());
    let published = one.published.map(|value| bar(name("P4"), Family::Published, value));
    [bar(name("model"), family(one.setting), one.here)].into_iter().chain(published)
}
