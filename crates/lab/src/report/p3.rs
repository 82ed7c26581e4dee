//! Tables 2 to 4 of P3: migrations of receivers that packets follow, what they cost, and what it published beside them.

use super::{Page, svg::Escaped};
use crate::{
    kit::{
        format,
        results::{Point, Results},
    },
    published::{P3_CPU, P3_EVENTS, P3_FLOWS, P3_MACHINE, P3_SETTLE, P3_UNINTENDED},
    report::table::distinct,
};

/// What stands before the tables.
const TEXT: &str = "P3 has receivers stay where they have moved to until the interrupt that wakes them has followed, by Receive \
     Flow Steering (RFS). It compared that with the scheduler of Linux 3.2 as it was. Here daiko-follow does so, and \
     daiko-mover does not; under each of its figures stands how it relates to daiko-mover's, and under P3's proposal how it \
     relates to the existing scheduler. Kernel threads are placed by the scheduler of this kernel. That daiko-pinned has no \
     migrations is what it is: its fibers never move. An unintended migration takes a receiver back to where the \
     wake-up before has taken it from.";

/// What is not one of the counters' business here.
const HINT: &str = "CPU use is of the receivers' process, in percent of one CPU; that of the machine, of all CPUs together, has \
     whatever else ran in it. P3 does not say of what its per cent are.";

const NOT_MEASURABLE: &str = "not measurable here";

/// A row: a table of P3, what it is about, what P3 has for the existing scheduler and its own, and how to read it here.
struct Row {
    name: String,
    published: [Option<f64>; 2],
    value: Value,
}

enum Value {
    /// Unintended migrations among all, in per cent.
    Unintended,
    /// The points with that `stat`.
    Stat(&'static str),
    /// Likewise, by counters of the processor, which not all machines show.
    Counter(&'static str),
}

/// The points of one method.
struct Measured<'a> {
    method: &'a str,
    points: Vec<&'a Point>,
}

impl Measured<'_> {
    fn value(&self, row: &Row) -> Option<f64> {
        match row.value {
            Value::Unintended => self.unintended(),
            Value::Stat(stat) | Value::Counter(stat) => self.median(stat),
        }
    }

    fn median(&self, stat: &str) -> Option<f64> {
        let same = |point: &&&Point| point.params.text("stat") == Some(stat);
        self.points.iter().find(same).map(|point| point.median)
    }

    fn unintended(&self) -> Option<f64> {
        let (swaps, all) = (self.median("swaps")?, self.median("migrations")?);
        (all > 0.0).then(|| 100.0 * swaps / all)
    }
}

fn rows() -> Vec<Row> {
    let of = |table: u32, name: &str, published, value| Row {
        name: format!("{table}: {name}"),
        published,
        value,
    };
    let existing = |figure| [Some(figure), None];
    let [settle, longest] = P3_SETTLE.map(existing);
    let unintended = existing(100.0 * P3_UNINTENDED);
    let mut rows = vec![
        of(2, "unintended, % of migrations", unintended, Value::Unintended),
        of(2, "unintended ones in a row, mean", settle, Value::Stat("settle")),
        of(2, "unintended ones in a row, most", longest, Value::Stat("settle-max")),
    ];
    rows.extend(P3_EVENTS.map(|(stat, published)| {
        let value = if stat == "migrations" { Value::Stat(stat) } else { Value::Counter(stat) };
        of(3, &format!("{stat}, 1/s"), published.map(Some), value)
    }));
    rows.push(of(4, "CPU use, %", P3_CPU.map(Some), Value::Stat("cpu")));
    rows.push(of(4, "CPU use of the machine, %", [None; 2], Value::Stat("machine-cpu")));
    rows
}

impl Page {
    /// The section, if there is anything to show: with packets that follow and without, of the most flows.
    pub(super) fn p3(&mut self, results: &Results) {
        let of_follow = |point: &&Point| point.experiment == "follow";
        let points: Vec<&Point> = results.measured().filter(of_follow).collect();
        let flows = points.iter().filter_map(|point| point.params.number("flows")).max();
        let Some(flows) = flows else { return };
        self.add(format_args!("<section><h2>Tables 2 to 4 of P3</h2><p>{}</p>", Escaped(TEXT)));
        self.add(format_args!(
            r#"<p class="hint">published: {}, {P3_FLOWS} flows. {}</p>"#,
            Escaped(P3_MACHINE),
            Escaped(HINT)
        ));
        for (rfs, how) in [("on", "packets follow their readers"), ("off", "they do not")] {
            let here = |point: &&&Point| {
                point.params.number("flows") == Some(flows) && point.params.text("rfs") == Some(rfs)
            };
            let here: Vec<&Point> = points.iter().filter(here).copied().collect();
            if !here.is_empty() {
                self.p3_table(&here, &format!("{flows} flows, RFS {rfs}: {how}"), rfs == "on");
            }
        }
        self.0.push_str("</section>");
    }

    fn p3_table(&mut self, points: &[&Point], title: &str, with_published: bool) {
        let methods = distinct(points.iter().map(|point| point.method.as_str()));
        let of = |method| {
            let points = points.iter().filter(|point| point.method == method);
            Measured { method, points: points.copied().collect() }
        };
        let measured: Vec<Measured<'_>> = methods.into_iter().map(of).collect();
        self.open_scroll(title);
        self.add(format_args!("<table><caption>{}</caption><thead><tr>", Escaped(title)));
        self.0.push_str(r#"<th class="text" scope="col">table of P3</th>"#);
        let published = ["published, existing", "published, proposed"];
        let published = published.into_iter().filter(|_| with_published);
        for head in measured.iter().map(|measured| measured.method).chain(published) {
            self.add(format_args!(r#"<th scope="col">{}</th>"#, Escaped(head)));
        }
        self.0.push_str("</tr></thead><tbody>");
        rows().iter().for_each(|row| self.p3_row(row, &measured, with_published));
        self.0.push_str("</tbody></table></div>");
    }

    fn p3_row(&mut self, row: &Row, measured: &[Measured<'_>], with_published: bool) {
        self.add(format_args!(r#"<tr><th scope="row">{}</th>"#, Escaped(&row.name)));
        let mover = measured.iter().find(|one| one.method == "daiko-mover");
        let mover = mover.and_then(|mover| mover.value(row));
        let is_counter = matches!(row.value, Value::Counter(_));
        for one in measured {
            let baseline = mover.filter(|_| one.method == "daiko-follow");
            self.p3_cell(one.value(row), baseline, is_counter);
        }
        if with_published {
            let [existing, proposed] = row.published;
            self.p3_cell(existing, None, false);
            self.p3_cell(proposed, existing, false);
        }
        self.0.push_str("</tr>");
    }

    fn p3_cell(&mut self, value: Option<f64>, baseline: Option<f64>, is_counter: bool) {
        let Some(value) = value else {
            let nothing = if is_counter { NOT_MEASURABLE } else { "\u{2013}" };
            return self.add(format_args!("<td>{nothing}</td>"));
        };
        let ratio = baseline.filter(|baseline| *baseline > 0.0).map(|baseline| value / baseline);
        let ratio = ratio.map_or(String::new(), |ratio| format!("<small>{ratio:.2}</small>"));
        self.add(format_args!("<td>{}{ratio}</td>", format::number(value)));
    }
}
