//! Lateness of sleepers, by method, beside Daiko's targets.

use crate::kit::{Cell, DataTable, Part, Points, Section, format};

/// Daiko's target for each `state`: the largest median, in nanoseconds.
const REACH: [(&str, f64); 2] = [("polling", 2_000.0), ("parked", 80_000.0)];

/// Text before the table.
const TEXT: &str = "Time from the end of a sleep until its thread runs, the median in nanoseconds. \
     In the state polling a sleep takes 20 \u{b5}s, while the agent of Daiko's one worker polls; \
     in the state parked it takes 5 ms, and the worker has parked. Other threads wait for a \
     semaphore during that time, with timeouts of an hour and more. Nothing else happens.";

/// Conditions of each method.
const HINT: &str = "nptl sleeps by clock_nanosleep to an absolute time, on one CPU, with the timer \
     slack that Linux gives every thread: a sleep may take 50 \u{b5}s longer. Timers of tokio tick \
     once in a millisecond, and a sleep ends on a tick. Daiko's workers have a timer slack of 1 \
     ns, and its timers tick once in 1,024 ns.";

/// The section, or `None` without points to show.
pub(super) fn section(own: &Points<'_>) -> Option<Section> {
    let points = own.with("item", "sleep-lateness").without("stat");
    let methods = points.methods();
    let mut rows = Vec::new();
    for (state, reach) in REACH {
        let points = points.with("state", state);
        for timers in points.sorted_numbers("timers") {
            let points = points.with("timers", timers);
            let mut row: Vec<Cell> = vec![state.into(), format::count(timers).into()];
            let medians = methods.iter().map(|method| points.method(method).median());
            row.extend(medians.map(|median| Cell::some(median.map(format::number))));
            row.push(format!("\u{2264} {}", format::number(reach)).into());
            rows.push(row);
        }
    }
    let title = "How late a sleeper is resumed";
    let heads = methods.iter().map(|method| format!("{method}, ns"));
    let heads = ["timers".into()].into_iter().chain(heads).chain(["target of daiko".into()]);
    let table = DataTable::new("how late a sleeper is resumed", ["state"], heads).with_rows(rows);
    let parts = vec![Part::Text(TEXT.into()), Part::Table(table), Part::Hint(HINT.into())];
    (!points.is_empty()).then(|| Section::Titled(title.into(), parts))
}
