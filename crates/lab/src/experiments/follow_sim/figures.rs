//! P3's figures over the lag of interrupts: the part of unintended migrations, the time until they
//! end, and the savings of P3's policy.

use super::model::Model;
use super::published::{self, NAME};
use crate::kit::{
    Cell, Curve, CurveLine, DataTable, Drawing, Family, Mark, Point, Points, Results, Section,
    Spread, Unit, format, p3,
};

const UNINTENDED_TEXT: &str = "Unintended migrations under the existing policy, in per cent of \
     all, against the lag: the time from a task's request for data on another CPU until its \
     packets may follow it there; they also wait until earlier packets have been processed. Twelve \
     CPUs, 512 flows, one line for each rate of packets per flow.";

const SETTLING_TEXT: &str = "Number of consecutive wake-ups that take a task back to the CPU that \
     it left at the previous one: mean and maximum, against the lag.";

const MIGRATIONS_TEXT: &str = "Migrations under the policy of P3, in per cent of those under the \
     existing one, against the lag. Under P3's policy, a task that has moved stays until its \
     interrupt has followed it, for at most four wake-ups.";

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(NAME);
    let drawings = [unintended(&own), settling(&own), migrations(&own)];
    drawings.into_iter().flatten().map(Section::Drawing).collect()
}

fn unintended(own: &Points<'_>) -> Option<Drawing> {
    let lines = of_rates(own, "existing", "unintended", Family::Kernel, |point| {
        Some(point.spread().map(|part| part * 100.0))
    });
    let published = [("P3: 8%", published::value("existing", "unintended")? * 100.0)];
    let drawn = drawn(
        "follow-sim.svg",
        "P3, simulated: unintended migrations",
        UNINTENDED_TEXT,
        "% of migrations, unintended",
        lines,
        &published,
    )?;
    let text = format!("{} {} P3: {}. {}", drawn.text, without_lag(own), p3::MACHINE, assumption());
    Some(Drawing { table: table(own, &drawn.title), text, ..drawn })
}

fn settling(own: &Points<'_>) -> Option<Drawing> {
    let rate = Model::default().rate;
    let line = |(stat, name): (&str, &str)| {
        let points = points(own, "existing", stat, rate);
        line(name.into(), Family::Kernel, &points, |point| Some(point.spread()))
    };
    let lines = [("settle-mean", "mean"), ("settle-max", "most")].map(line).into();
    let published = [
        ("P3: mean 1.21", published::value("existing", "settle-mean")?),
        ("P3: most 9", published::value("existing", "settle-max")?),
    ];
    let title = "P3, simulated: until a task has settled";
    drawn("follow-sim-settling.svg", title, SETTLING_TEXT, "wake-ups", lines, &published)
}

fn migrations(own: &Points<'_>) -> Option<Drawing> {
    let of_existing = |point: &Point| {
        let part = relative(own, point)? * 100.0;
        // Simulated values are equal in each run; only then is a quotient of extremes meaningful.
        Some(Spread::exactly(part))
    };
    drawn(
        "follow-sim-migrations.svg",
        "P3, simulated: migrations that its policy leaves",
        MIGRATIONS_TEXT,
        "% of migrations under existing",
        of_rates(own, "follow", "migrations", Family::Ours, of_existing),
        &[("P3: 52%", published::value("follow", "migrations")? * 100.0)],
    )
}

/// Builds a line for each rate, that of the model first.
fn of_rates(
    own: &Points<'_>,
    method: &str,
    stat: &str,
    family: Family,
    value: impl Fn(&Point) -> Option<Spread>,
) -> Vec<CurveLine> {
    let of_rate =
        |rate| line(format!("{rate} packets/s"), family, &points(own, method, stat, rate), &value);
    own.numbers("rate").into_iter().map(of_rate).collect()
}

/// Builds a line over the lag. Lag 0 has no place on a logarithmic axis.
fn line(
    name: String,
    family: Family,
    points: &Points<'_>,
    value: impl Fn(&Point) -> Option<Spread>,
) -> CurveLine {
    CurveLine::new(name, family, points, |point| {
        let lag = point.params.number("lag").filter(|lag| *lag > 0)?;
        Some(Mark { x: lag as f64, y: value(point)?, means: format!("lag {lag} \u{b5}s") })
    })
}

/// Draws lines over the lag, and P3's figures as horizontal lines from end to end.
fn drawn(
    file: &'static str,
    title: &str,
    text: &str,
    axis: &str,
    mut lines: Vec<CurveLine>,
    published: &[(&str, f64)],
) -> Option<Drawing> {
    lines.retain(|line| !line.marks.is_empty());
    let xs = || lines.iter().flat_map(|line| &line.marks).map(|mark| mark.x);
    let ends = [xs().min_by(f64::total_cmp)?, xs().max_by(f64::total_cmp)?];
    lines.extend(published.iter().map(|(name, value)| {
        CurveLine::level(name, Family::Published, Spread::exactly(*value), "published", ends)
    }));
    let label = format!("{title}: {axis}, against the lag");
    let curve = Curve::new(label, ["lag, \u{b5}s", axis], lines);
    Curve { linear_y: true, ..curve }.drawn(file, title, text)
}

/// Points with P3's number of CPUs, at any lag.
fn points<'a>(own: &Points<'a>, method: &str, stat: &str, rate: u64) -> Points<'a> {
    let base = Model::default();
    let own = own.method(method).with("stat", stat).with("rate", rate);
    own.with("cpus", u64::from(base.cpus)).with("flows", u64::from(base.flows)).filter(|point| {
        let number = |key| point.params.number(key);
        number("lag").is_some()
            && ["burst", "load", "seed", "set"].iter().all(|key| point.params.get(key).is_none())
    })
}

/// Value of `follow` relative to that of `existing` with the same parameters.
fn relative(own: &Points<'_>, point: &Point) -> Option<f64> {
    let base = own.method("existing").unit(point.unit).filter(|base| base.params == point.params);
    Some(point.median / base.median().filter(|base| *base > 0.0)?)
}

/// Value of `method` on P3's machine at its rate, with this lag; for `follow`, relative to
/// `existing`.
fn value(own: &Points<'_>, method: &str, stat: &str, lag: u64) -> Option<f64> {
    let points = points(own, method, stat, Model::default().rate);
    let point = points.with("lag", lag).first()?;
    match method {
        "follow" => relative(own, point),
        _ => Some(point.median),
    }
}

/// Sentence about the unintended part when the only lag is that of queues.
fn without_lag(own: &Points<'_>) -> String {
    value(own, "existing", "unintended", 0).map_or_else(String::new, |part| {
        let part = format::number(part * 100.0);
        format!("Without lag, except that of packets before them, it is {part}%.")
    })
}

/// Sentences about the origin of the model's parameters, and the price of P3's policy.
fn assumption() -> String {
    format!(
        "The parameters are a set that reproduces P3, found by a search for these very figures. \
         It has {}% of other load; P3 reports 25.3% in all. Tasks that are kept wait: p99 in the \
         table is the price.",
        Model::default().load
    )
}

/// Builds a table of P3's figures beside those of the simulator at the nearest lag.
fn table(own: &Points<'_>, title: &str) -> Option<DataTable> {
    let rows = [
        ("unintended, of migrations", "existing", "unintended"),
        ("wake-ups until settled, mean", "existing", "settle-mean"),
        ("wake-ups until settled, most", "existing", "settle-max"),
        ("migrations, of those under existing", "follow", "migrations"),
        ("use of CPUs, of that under existing", "follow", "cpu"),
        ("migrations per second under existing", "existing", "migrations"),
        ("p99 until a woken task runs under existing, ns", "existing", "p99"),
        ("p99, of that under existing", "follow", "p99"),
    ];
    let lag = nearest(own)?;
    let row = |(name, method, stat): (&str, &str, &str)| {
        let here = |lag| Cell::some(value(own, method, stat, lag).map(format::number));
        let published = Cell::some(published::value(method, stat).map(format::number));
        vec![name.into(), here(0), here(lag), published]
    };
    let nearest = format!("simulated, lag {lag} \u{b5}s");
    let heads = ["simulated, no lag", &nearest, "published"];
    Some(DataTable::new(title, ["method"], heads).with_rows(rows.map(row)))
}

/// The lag at which the part of unintended migrations is nearest to P3's.
fn nearest(own: &Points<'_>) -> Option<u64> {
    let published = published::value("existing", "unintended")?;
    let points = points(own, "existing", "unintended", Model::default().rate);
    let far = |point: &&Point| match point.unit {
        Unit::Ratio => (point.median - published).abs(),
        _ => f64::INFINITY,
    };
    let nearest = points.iter().min_by(|one, other| far(one).total_cmp(&far(other)))?;
    nearest.params.number("lag")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::drawings;
    use crate::testing::made_up::full;

    #[test]
    fn findings_of_p3_stand_beside_simulated_results() {
        let sections = sections(&full());
        let [Section::Drawing(unintended), ..] = &sections[..] else { panic!("{sections:?}") };
        let text = &unintended.text;
        assert!(text.contains("before them, it is 2.00%. P3: Core i7"), "{text}");
        let rows = &unintended.table.as_ref().expect("a table").rows;
        let row =
            |index: usize| rows[index].iter().map(|cell| cell.value.as_str()).collect::<Vec<_>>();
        assert_eq!(row(3)[1..], ["0.600", "0.520", "0.519"], "with the lag of the nearest part");
        assert_eq!(row(4)[2], "\u{2013}", "no use of CPUs was read");
        assert_eq!(row(7)[3], "\u{2013}", "P3 has no latencies");
        assert!(text.ends_with("is the price.") && text.contains("50% of other load"), "{text}");
        let heads = format!("{:?}", unintended.table.as_ref().expect("a table").columns);
        assert!(heads.contains("simulated, lag 20 \u{b5}s"), "where unintended is nearest");
        let [.., (_, unintended), (_, settling), (_, migrations)] = &drawings(&full())[..] else {
            panic!("three")
        };
        assert!(unintended.contains("P3: 8%"));
        assert!(unintended.contains("lag 20 \u{b5}s: 8.00 (7.20 to 9.60)"), "in per cent");
        assert!(settling.contains("P3: mean 1.21") && settling.contains("P3: most 9"));
        assert!(migrations.contains("lag 20 \u{b5}s: 52.0 ("), "of those of the other policy");
    }
}
