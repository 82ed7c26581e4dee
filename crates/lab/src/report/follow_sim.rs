//! P3's figures against the lag by which interrupts follow: what of the migrations nobody intended, how long that takes to end, and what
//! its policy saves.

use super::{
    chart::{Family, Line, LineChart, LinePoint, Span},
    figures::{Figure, RatioLine, RatioTable, span},
};
use crate::{
    experiments::follow_sim::Model,
    kit::{
        Unit, format,
        results::{Point, Results},
    },
    published::{P3_MACHINE, p3_value},
    report::table::distinct,
};

const UNINTENDED_TEXT: &str = "Which part of migrations is unintended under the existing policy, in per cent, against the lag: the time from \
     when a task asks for data on another CPU until its packets may follow it there; they also wait until those before them have \
     been processed. Twelve CPUs, 512 flows, one line for each rate of packets per flow.";

const SETTLING_TEXT: &str = "How many wake-ups in a row take a task back to where the one before has taken it from, until one does not: mean and \
     most, against the lag.";

const MIGRATIONS_TEXT: &str = "Migrations under the policy of P3, in per cent of those under the existing one, against the lag: a task that has moved \
     stays until its interrupt has followed it, for at most four wake-ups.";

/// Figures with the names of their files.
pub(super) fn figures(results: &Results) -> Vec<(&'static str, Figure)> {
    let figures = [
        ("follow-sim.svg", unintended(results)),
        ("follow-sim-settling.svg", settling(results)),
        ("follow-sim-migrations.svg", migrations(results)),
    ];
    figures.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
}

fn unintended(results: &Results) -> Option<Figure> {
    let line = |rate| {
        let points = points(results, "existing", "unintended", rate);
        let name = format!("{rate} packets/s");
        Line { name, family: Family::Kernel, points: marks(points, scaled(100.0)) }
    };
    let lines = rates(results).into_iter().map(line).collect();
    let published = [("P3: 8%", p3_value("existing", "unintended")? * 100.0)];
    let axis = "% of migrations, unintended";
    let drawn = drawn(
        "P3, simulated: migrations that nobody intended",
        UNINTENDED_TEXT,
        axis,
        lines,
        &published,
    )?;
    let text = format!("{} {} P3: {P3_MACHINE}.", drawn.text, without_lag(results));
    Some(Figure { table: table(results), text, ..drawn })
}

fn settling(results: &Results) -> Option<Figure> {
    let rate = Model::default().rate;
    let line = |(stat, name): (&str, &str)| {
        let points = points(results, "existing", stat, rate);
        Line { name: name.into(), family: Family::Kernel, points: marks(points, scaled(1.0)) }
    };
    let lines = [("settle-mean", "mean"), ("settle-max", "most")].map(line).into();
    let published = [
        ("P3: mean 1.21", p3_value("existing", "settle-mean")?),
        ("P3: most 9", p3_value("existing", "settle-max")?),
    ];
    drawn("P3, simulated: until a task has settled", SETTLING_TEXT, "wake-ups", lines, &published)
}

fn migrations(results: &Results) -> Option<Figure> {
    let line = |rate| {
        let name = format!("{rate} packets/s");
        let points = points(results, "follow", "migrations", rate);
        let of_existing = |point: &Point| relative(results, point);
        Line { name, family: Family::Ours, points: marks(points, of_existing) }
    };
    let lines = rates(results).into_iter().map(line).collect();
    let published = [("P3: 52%", p3_value("follow", "migrations")? * 100.0)];
    let axis = "% of migrations under existing";
    drawn(
        "P3, simulated: migrations that its policy leaves",
        MIGRATIONS_TEXT,
        axis,
        lines,
        &published,
    )
}

/// Lines over the lag, and what P3 found as one from end to end.
fn drawn(
    title: &str,
    text: &str,
    axis: &str,
    mut lines: Vec<Line>,
    published: &[(&str, f64)],
) -> Option<Figure> {
    lines.retain(|line| !line.points.is_empty());
    let xs = || lines.iter().flat_map(|line| &line.points).map(|point| point.x);
    let (least, most) = (xs().min_by(f64::total_cmp)?, xs().max_by(f64::total_cmp)?);
    for (name, value) in published {
        let y = Span { median: *value, min: *value, max: *value };
        let point = |x| LinePoint { x, y, means: "published".into() };
        let points = vec![point(least), point(most)];
        lines.push(Line { name: (*name).into(), family: Family::Published, points });
    }
    let chart = LineChart {
        label: format!("{title}: {axis}, against the lag"),
        x: "lag, \u{b5}s".into(),
        y: axis.into(),
        ticks_at_values: true,
        linear_x: false,
        linear_y: true,
        name_ends: false,
        lines,
    };
    Some(Figure::of_lines(title, text, &chart))
}

/// Points on P3's number of CPUs, with any lag.
fn points<'a>(results: &'a Results, method: &str, stat: &str, rate: u64) -> Vec<&'a Point> {
    let base = Model::default();
    let is_wanted = |point: &&Point| {
        let number = |key| point.params.number(key);
        point.experiment == "follow-sim"
            && point.method == method
            && point.params.text("stat") == Some(stat)
            && number("rate") == Some(rate)
            && number("cpus") == Some(base.cpus.into())
            && number("flows") == Some(base.flows.into())
            && number("lag").is_some()
            && ["burst", "load", "seed"].iter().all(|key| number(key).is_none())
    };
    results.measured().filter(is_wanted).collect()
}

/// All rates, that of the model first.
fn rates(results: &Results) -> Vec<u64> {
    let own = results.measured().filter(|point| point.experiment == "follow-sim");
    distinct(own.filter_map(|point| point.params.number("rate")))
}

/// Marks by lag; no lag has no place on a logarithmic axis.
fn marks(points: Vec<&Point>, value: impl Fn(&Point) -> Option<Span>) -> Vec<LinePoint> {
    let mark = |point: &Point| {
        let lag = point.params.number("lag").filter(|lag| *lag > 0)?;
        Some(LinePoint { x: lag as f64, y: value(point)?, means: format!("lag {lag} \u{b5}s") })
    };
    let mut marks: Vec<LinePoint> = points.into_iter().filter_map(mark).collect();
    marks.sort_by(|one, other| one.x.total_cmp(&other.x));
    marks
}

fn scaled(factor: f64) -> impl Fn(&Point) -> Option<Span> {
    move |point| {
        let Span { median, min, max } = span(point);
        Some(Span { median: median * factor, min: min * factor, max: max * factor })
    }
}

/// A value of `follow` in per cent of that of `existing` with the same parameters.
fn relative(results: &Results, point: &Point) -> Option<Span> {
    let is_base = |other: &&Point| {
        other.experiment == point.experiment
            && other.method == "existing"
            && other.unit == point.unit
            && other.params == point.params
    };
    let base = results.measured().find(is_base).filter(|base| base.median > 0.0)?;
    // Simulated, they are the same in each run; only then is a quotient of extremes one.
    let part = point.median / base.median * 100.0;
    Some(Span { median: part, min: part, max: part })
}

/// The value of `method` on P3's machine, at its rate, with the lag; in per cent of that of `existing` if `unit` is a ratio
/// to it.
fn value(results: &Results, method: &str, stat: &str, lag: u64) -> Option<f64> {
    let points = points(results, method, stat, Model::default().rate);
    let point = points.into_iter().find(|point| point.params.number("lag") == Some(lag))?;
    match method {
        "follow" => Some(relative(results, point)?.median / 100.0),
        _ => Some(point.median),
    }
}

/// What there is without any lag but that of queues.
fn without_lag(results: &Results) -> String {
    match value(results, "existing", "unintended", 0) {
        Some(part) => format!(
            "Without any lag but that of packets before them it is {}%.",
            format::number(part * 100.0)
        ),
        None => String::new(),
    }
}

/// Beside what P3 found, what the simulator does where it comes nearest.
fn table(results: &Results) -> Option<RatioTable> {
    let rows = [
        ("unintended, of migrations", "existing", "unintended"),
        ("wake-ups until settled, mean", "existing", "settle-mean"),
        ("wake-ups until settled, most", "existing", "settle-max"),
        ("migrations, of those under existing", "follow", "migrations"),
        ("use of CPUs, of that under existing", "follow", "cpu"),
        ("migrations per second under existing", "existing", "migrations"),
    ];
    let lag = nearest(results)?;
    let row = |(name, method, stat): (&str, &str, &str)| RatioLine {
        name: name.into(),
        time: value(results, method, stat, 0),
        measured: value(results, method, stat, lag),
        published: p3_value(method, stat),
    };
    Some(RatioTable {
        heads: [
            "simulated, no lag".into(),
            format!("simulated, lag {lag} \u{b5}s"),
            "published".into(),
        ],
        ratio: format::number,
        rows: rows.map(row).into(),
    })
}

/// The lag with which the part of unintended migrations is nearest to P3's.
fn nearest(results: &Results) -> Option<u64> {
    let published = p3_value("existing", "unintended")?;
    let points = points(results, "existing", "unintended", Model::default().rate);
    let far =
        |point: &&Point| (point.unit == Unit::Ratio).then(|| (point.median - published).abs());
    let nearest = points.into_iter().min_by(|one, other| {
        let far = |point| far(point).unwrap_or(f64::INFINITY);
        far(one).total_cmp(&far(other))
    })?;
    nearest.params.number("lag")
}
