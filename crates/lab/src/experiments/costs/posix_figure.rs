//! Calls of a program in C, native and on Daiko's workers, beside the targets.

use super::posix::{DROPIN, NATIVE};
use crate::kit::{Cell, DataTable, Part, Points, Section, format};

/// The largest time of a call on Daiko's workers.
#[derive(Clone, Copy)]
enum Target {
    /// Relative to the native call.
    Ratio(f64),
    Nanoseconds(f64),
}

const TARGETS: [(&str, Target); 4] = [
    ("mutex", Target::Ratio(1.1)),
    ("semaphore", Target::Ratio(1.1)),
    ("create-join", Target::Nanoseconds(2_000.0)),
    ("errand", Target::Nanoseconds(2_500.0)),
];

/// Text before the table.
const TEXT: &str = "Time of a call in a thread of one program in C, in nanoseconds: an uncontended \
     mutex locked and unlocked, an uncontended semaphore posted and waited for, a thread created \
     and joined, and a call that concerns the kernel thread (getpriority). The program is compiled \
     once. c-nptl runs it as it is, on one CPU; dropin runs it on one of Daiko's workers, by a \
     library that is preloaded.";

/// The section, or `None` without points to show.
pub(super) fn section(own: &Points<'_>) -> Option<Section> {
    let methods = [NATIVE.name, DROPIN.name];
    let points = own.filter(|point| methods.contains(&point.method.as_str()));
    let row = |(item, target): (&str, Target)| -> Vec<Cell> {
        let points = points.with("item", item);
        let [native, ours] = methods.map(|method| points.method(method).median());
        let ratio = ours.zip(native).map(|(ours, native)| format::ratio(ours / native));
        let target = match target {
            Target::Ratio(most) => format!("\u{2264} {}", format::ratio(most)),
            Target::Nanoseconds(most) => format!("\u{2264} {}", format::number(most)),
        };
        let [native, ours] = [native, ours].map(|median| Cell::some(median.map(format::number)));
        vec![item.into(), native, ours, Cell::some(ratio), target.into()]
    };
    let title = "Calls of an unmodified program on Daiko's workers";
    let heads = ["c-nptl, ns", "dropin, ns", "ratio", "target of dropin"];
    let table = DataTable::new("calls of an unmodified program", ["item"], heads);
    let table = table.with_rows(TARGETS.map(row));
    let parts = vec![Part::Text(TEXT.into()), Part::Table(table)];
    (!points.is_empty()).then(|| Section::Titled(title.into(), parts))
}

#[cfg(test)]
mod tests {
    use crate::testing::made_up::cost;
    use crate::testing::page;

    #[test]
    fn native_calls_and_those_on_workers_stand_beside_their_targets() {
        let both = [
            cost("c-nptl", "mutex", 10.0),
            cost("dropin", "mutex", 12.0),
            cost("dropin", "errand", 3000.0),
        ];
        let html = page(both.concat());
        let row = |item: &str, cells: &str| {
            let cells = cells.replace('|', "</td><td>");
            format!(r#"<tr><th scope="row">{item}</th><td>{cells}</td></tr>"#)
        };
        for row in [
            row("mutex", "10.0|12.0|1.20x|\u{2264} 1.10x"),
            row("errand", "\u{2013}|3,000|\u{2013}|\u{2264} 2,500"),
        ] {
            assert!(html.contains(&row), "{row}");
        }
        let title = "Calls of an unmodified program";
        assert!(html.contains(title) && !page(cost("nptl", "mutex", 9.0)).contains(title));
    }
}
