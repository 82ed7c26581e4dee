//! Table 1 of P2 and the tables of P5: costs of each item here, by method, beside the published
//! figures.

use super::published::{P2_MUTEX, P5_MACHINES, P5_RATIOS};
use crate::kit::{
    Cell, Chart, DataTable, Drawing, Family, Params, Part, Points, RatioChart, RatioRow, Section,
    Spread, distinct, format,
};

const P2_TEXT: &str = "Cost of locking and unlocking an uncontended mutex. P2 compared PTL with \
     its own library. In PTL, threads are those of one process, and a mutex is a variable that \
     they change at user level. In P2's library, virtual processors are processes, and a mutex is \
     a semaphore of the kernel. P2 published microseconds, and explains the difference by the \
     system calls. Here daiko corresponds to PTL, semop uses a semaphore of the kernel, and \
     daiko-processes uses the mutex of fibers that processes run. Below each value stands its \
     ratio to daiko; the picture has the ratios of both.";

const P2_MACHINE: &str = "published: two Pentium Pro, 150 MHz, 64 MB, FreeBSD 3.0.";

/// The section, or `None` without points to show.
pub(super) fn p2(own: &Points<'_>) -> Option<Section> {
    let items = P2_MUTEX
        .map(|(item, [ptl, own])| (item, vec![ptl.to_string().into(), own.to_string().into()]));
    let heads = ["published, PTL, \u{b5}s", "published, P2, \u{b5}s"].map(String::from);
    let table = table("table 1 of P2", heads, &items, "daiko", own)?;
    let text = [Part::Text(P2_TEXT.into()), Part::Hint(P2_MACHINE.into())];
    let drawn = Part::Drawings(p2_drawing(own).into_iter().collect());
    Some(Section::Titled("Table 1 of P2".into(), text.into_iter().chain([drawn, table]).collect()))
}

/// The cost of a mutex of the kernel relative to that of a mutex at user level.
fn p2_drawing(own: &Points<'_>) -> Option<Drawing> {
    let rows = P2_MUTEX.map(|(item, [ptl, own_library])| RatioRow {
        name: item.into(),
        family: Family::Kernel,
        published: Some(own_library / ptl),
        measured: relative(own, item, "semop", "daiko"),
    });
    drawing(
        "Mutexes of the kernel",
        "Filled: semop relative to daiko here, with range; hollow: P2's library relative to PTL, as \
         published.",
        "times the cost at user level",
        rows.into(),
    )
}

/// The first point of `method` relative to that of `base`, for an item.
fn relative(own: &Points<'_>, item: &str, method: &str, base: &str) -> Option<Spread> {
    let of_item = own.with("item", item);
    let point = of_item.method(method).without("stat").first()?;
    let base = of_item.method(base).filter(|other| other.params == point.params);
    Some(point.spread().over(base.first()?.spread()))
}

/// A drawing of ratios; `None` if none of them was measured.
fn drawing(title: &str, text: &str, axis: &str, rows: Vec<RatioRow>) -> Option<Drawing> {
    rows.iter().find(|row| row.measured.is_some())?;
    let chart = RatioChart { label: format!("{title}: {text}"), axis: axis.into(), rows };
    Some(Drawing {
        file: None,
        title: title.into(),
        text: text.into(),
        chart: Chart::Ratios(chart),
        has_legend: false,
        table: None,
    })
}

const P5_TEXT: &str = "P5 is an evaluation of Linux's thread library NPTL against its predecessor \
     LinuxThreads. It published the times of NPTL relative to those of LinuxThreads, on two \
     machines. Less is faster; such ratios carry over to another machine, while nanoseconds do \
     not. The first table has the costs of the same items here, in nanoseconds, and below each its \
     ratio to NPTL here; the second has the published ratios. P5 does not state how it switched by a mutex, nor whether the threads \
     that it joined had ended: here they have.";

/// The times that P5 printed. No figure is computed from them.
const P5_TIMES: &str = "The times that P5 printed, as extracted from its text, which lost decimal \
     points and prefixes of units (x86 NPTL, LinuxThreads; MIPS NPTL, LinuxThreads): thread-info \
     54, 59; 150, 170. mutex 64, 80; 570, 520. semaphore 400, 150; 1870, 960. switch-mutex 153, \
     274; 19.8, 62.9. switch-semaphore 154, 283; 19.7, 59.8. switch-condvar 228, 309; 29.1, 64.6. \
     create 12.5, 31.9; 146, 637. join 5.7, 28.4; 805, 841. Internal evidence suggests nanoseconds \
     for thread-info (5.4 and 5.9 on x86), mutex and semaphore, and microseconds for all other \
     items, where switches on x86 are hundredths (1.53, 2.74), and the join of NPTL on MIPS is \
     80.5. The semaphore's ratio on x86 is printed as 27, and is 2.7 by its times.";

/// The section, or `None` without points to show.
pub(super) fn p5(own: &Points<'_>) -> Option<Section> {
    // Shown as printed: the ratios have two digits.
    let items = P5_RATIOS
        .map(|(item, ratios)| (item, ratios.map(|ratio| ratio.to_string().into()).to_vec()));
    let measured = items.each_ref().map(|(item, _)| (*item, vec![]));
    let measured = table("the items of P5 here", [], &measured, "nptl", own)?;
    let heads = P5_MACHINES.map(|(machine, _)| format!("NPTL to LinuxThreads, {machine}"));
    let published = DataTable::new("the tables of P5, as published", ["item"], heads);
    let published = published.with_rows(
        items
            .into_iter()
            .map(|(item, ratios)| [Cell::from(item)].into_iter().chain(ratios).collect()),
    );
    let drawings: Vec<Drawing> =
        (0..P5_MACHINES.len()).filter_map(|index| p5_drawing(own, index)).collect();
    let machines =
        P5_MACHINES.map(|(name, description)| format!("{name}: {description}")).join("; ");
    let parts = vec![
        Part::Text(P5_TEXT.into()),
        Part::Hint(format!("{machines}.")),
        Part::Drawings(drawings),
        measured,
        Part::Table(published),
        Part::Hint(P5_TIMES.into()),
    ];
    Some(Section::Titled("The tables of P5".into(), parts))
}

/// The cost of an item with the newer library relative to that with the older one: daiko to NPTL
/// here, NPTL to LinuxThreads on a machine of P5.
fn p5_drawing(own: &Points<'_>, machine: usize) -> Option<Drawing> {
    let rows = P5_RATIOS.map(|(item, ratios)| RatioRow {
        name: item.into(),
        family: Family::Ours,
        published: Some(ratios[machine]),
        measured: relative(own, item, "daiko", "nptl"),
    });
    drawing(
        &format!("Time relative to the library before, {}", P5_MACHINES[machine].0),
        "Filled: daiko relative to NPTL here, with range; hollow: NPTL relative to LinuxThreads, as \
         published.",
        "times the cost of the library before",
        rows.into(),
    )
}

/// Builds a row for each measured variant of each of the `items`, with the published cells beside
/// it. Below each value stands its ratio to the value of the method `baseline`.
fn table<const PUBLISHED: usize>(
    label: &str,
    published: [String; PUBLISHED],
    items: &[(&str, Vec<Cell>)],
    baseline: &str,
    own: &Points<'_>,
) -> Option<Part> {
    let points = own.filter(|point| {
        let item = point.params.text("item");
        items.iter().any(|(name, _)| item == Some(*name))
    });
    let methods = points.methods();
    let mut rows = Vec::new();
    for (item, published) in items {
        for params in distinct(points.with("item", *item).iter().map(|point| &point.params)) {
            let variant = points.filter(|point| point.params == *params);
            let base = variant.method(baseline).median();
            let cell = |method: &&str| {
                let value = variant.method(method).median();
                let base = base.filter(|_| *method != baseline);
                let ratio = Option::zip(value, base).map(|(value, base)| value / base);
                Cell::some(value.map(format::number)).above(ratio.map(format::number))
            };
            let cells = methods.iter().map(cell).chain(published.iter().cloned());
            rows.push([name(params).into()].into_iter().chain(cells).collect());
        }
    }
    let heads = methods.iter().map(|method| format!("{method}, ns")).chain(published);
    let table = DataTable::new(label, ["item"], heads).with_rows(rows);
    (!points.is_empty()).then_some(Part::Table(table))
}

/// Name of a row: the item, then the other parameters that distinguish it, as `thread-info,
/// of=tls`.
fn name(params: &Params) -> String {
    let parts = params.iter().map(|(key, value)| match key {
        "item" => value.to_string(),
        _ => format!("{key}={value}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::kit::{Params, Reading, Unit};
    use crate::report;
    use crate::testing::made_up::{cost, full, ring};
    use crate::testing::{page, points};

    #[test]
    fn the_published_ratios_of_p5_and_the_measured_ratios_have_tables_and_pictures() {
        let row =
            |name: &str, cells: &str| format!(r#"<tr><th scope="row">{name}</th>{cells}</tr>"#);
        let html = report::html(&full());
        let mutex = row("mutex", "<td>12.0</td><td>9.00<small>0.750</small></td>");
        assert!(html.contains(&mutex), "no such row");
        let published = row("mutex", "<td>0.8</td><td>1.1</td>");
        assert!(html.contains(&published), "no such row");
        for value in ["mutex: measured 0.750x", "mutex: published 0.800x"] {
            assert!(html.contains(value), "no {value} in the picture");
        }
        let params = Params::new().with("item", "thread-info").with("of", "tls");
        let ours = points("costs", "daiko", &params, &[Reading::new(Unit::Nanoseconds, 0.5)]);
        let html = page(ours);
        let tls = "<td>0.500</td>";
        assert!(html.contains(&row("thread-info, of=tls", tls)), "no such row without NPTL");
    }

    #[test]
    fn without_an_item_of_p5_there_are_none_of_its_tables() {
        let heading = "The tables of P5";
        assert!(report::html(&full()).contains(heading));
        for points in [cost("daiko", "yield", 9.0), ring("daiko", 10, 9.0)] {
            let html = page(points);
            assert!(!html.contains(heading));
        }
    }

    #[test]
    fn table_1_of_p2_stands_beside_measured_mutex_costs() {
        let both = [cost("daiko", "mutex-lock", 6.0), cost("semop", "mutex-lock", 360.0)];
        let html = page(both.concat());
        let row = "<td>6.00</td><td>360<small>60.0</small></td><td>36</td><td>58</td>";
        assert!(html.contains(&format!(r#"<tr><th scope="row">mutex-lock</th>{row}</tr>"#)));
        assert!(html.contains("mutex-lock: measured 60.0x") && html.contains("published 1.61x"));
        assert!(!page(cost("daiko", "mutex", 6.0)).contains("Table 1 of P2"));
    }

    #[test]
    fn sleepers_have_a_table_with_targets() {
        let sleep = |method: &str, state: &str, timers: u64, ns: f64| {
            let params = Params::new().with("item", "sleep-lateness").with("state", state);
            let worst = Reading::stat(Unit::Nanoseconds, "max", 9.0 * ns);
            let readings = vec![Reading::new(Unit::Nanoseconds, ns), worst];
            points("costs", method, &params.with("timers", timers), &readings)
        };
        let all = [
            sleep("nptl", "polling", 0, 60_000.0),
            sleep("daiko", "polling", 1000, 950.0),
            sleep("daiko", "polling", 0, 900.0),
            sleep("nptl", "parked", 0, 70_000.0),
        ]
        .concat();
        let html = page(all);
        let rows: Vec<&str> = html.split("<tr>").filter(|row| row.contains("\u{2264}")).collect();
        let row = |state: &str, cells: &str| {
            format!(r#"<th scope="row">{state}</th><td>{cells}</td></tr>"#)
                .replace('|', "</td><td>")
        };
        assert!(rows[0].starts_with(&row("polling", "0|60,000|900|\u{2264} 2,000")), "{rows:?}");
        assert!(
            rows[1].starts_with(&row("polling", "1000|\u{2013}|950|\u{2264} 2,000")),
            "{rows:?}"
        );
        assert!(
            rows[2].starts_with(&row("parked", "0|70,000|\u{2013}|\u{2264} 80,000")),
            "{rows:?}"
        );
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert!(!report::html(&full()).contains("How late a sleeper"), "nothing to show");
    }
}
