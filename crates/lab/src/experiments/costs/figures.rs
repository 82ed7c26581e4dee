//! Table 1 of P2 and the tables of P5: costs of each item here, by method, beside the published
//! figures.

use super::published::{P2_MUTEX, P5_MACHINES, P5_RATIOS};
use crate::kit::{Cell, DataTable, Params, Part, Points, Section, distinct, format};

const P2_TEXT: &str = "Cost of locking and unlocking an uncontended mutex. P2 compared PTL with \
     its own library. In PTL, threads are those of one process, and a mutex is a variable that \
     they change at user level. In P2's library, virtual processors are processes, and a mutex is \
     a semaphore of the kernel. P2 published microseconds, and explains the difference by the \
     system calls. Here daiko corresponds to PTL, semop uses a semaphore of the kernel, and \
     daiko-processes uses the mutex of fibers that processes run. Below each value stands its \
     ratio to daiko here, and to PTL there.";

const P2_MACHINE: &str = "published: two Pentium Pro, 150 MHz, 64 MB, FreeBSD 3.0.";

/// The section, or `None` without points to show.
pub(super) fn p2(own: &Points<'_>) -> Option<Section> {
    let items = P2_MUTEX.map(|(item, [ptl, own])| {
        let ratio = format::number(own / ptl);
        (item, vec![ptl.to_string().into(), Cell::from(own.to_string()).above(Some(ratio))])
    });
    let heads = ["published, PTL, \u{b5}s", "published, P2, \u{b5}s"].map(String::from);
    let table = table("table 1 of P2", heads, &items, "daiko", own)?;
    let text = [Part::Text(P2_TEXT.into()), Part::Hint(P2_MACHINE.into())];
    Some(Section::Titled("Table 1 of P2".into(), text.into_iter().chain([table]).collect()))
}

const P5_TEXT: &str = "P5 is an evaluation of Linux's thread library NPTL against its predecessor \
     LinuxThreads. It published the times of NPTL relative to those of LinuxThreads, on two \
     machines. Less is faster; such ratios carry over to another machine, while nanoseconds do \
     not. Beside them stand the costs of the same items here, in nanoseconds, and below each its \
     ratio to NPTL here. P5 does not state how it switched by a mutex, nor whether the threads \
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
    let heads = P5_MACHINES.map(|(machine, _)| format!("published, {machine}"));
    let table = table("the tables of P5", heads, &items, "nptl", own)?;
    let machines =
        P5_MACHINES.map(|(name, description)| format!("{name}: {description}")).join("; ");
    let parts = vec![
        Part::Text(P5_TEXT.into()),
        Part::Hint(format!("{machines}.")),
        table,
        Part::Hint(P5_TIMES.into()),
    ];
    Some(Section::Titled("The tables of P5".into(), parts))
}

/// Builds a row for each measured variant of each of the `items`, with the published cells beside
/// it. Below each value stands its ratio to the value of the method `baseline`.
fn table(
    label: &str,
    published: [String; 2],
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
    fn the_published_ratios_of_p5_stand_beside_measured_ratios() {
        let row =
            |name: &str, cells: &str| format!(r#"<tr><th scope="row">{name}</th>{cells}</tr>"#);
        let html = report::html(&full());
        let mutex =
            row("mutex", "<td>12.0</td><td>9.00<small>0.750</small></td><td>0.8</td><td>1.1</td>");
        assert!(html.contains(&mutex), "no such row");
        let params = Params::new().with("item", "thread-info").with("of", "tls");
        let ours = points("costs", "daiko", &params, &[Reading::new(Unit::Nanoseconds, 0.5)]);
        let html = page(ours);
        let tls = "<td>0.500</td><td>0.92</td><td>0.88</td>";
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
        let row =
            "<td>6.00</td><td>360<small>60.0</small></td><td>36</td><td>58<small>1.61</small></td>";
        assert!(html.contains(&format!(r#"<tr><th scope="row">mutex-lock</th>{row}</tr>"#)));
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
