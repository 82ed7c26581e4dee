//! The figures: P1's redrawn for this machine, and those beyond it.

use super::chart::{Family, Line, LineChart, LinePoint, RatioChart, RatioRow, Span};
use crate::{
    experiments::ring::conclusion::{ring_point, ring_ratio},
    kit::{
        Unit, format,
        results::{Point, Results},
    },
    published::{self, P1_CPUS, P1_METHOD},
};

const SIGNALS: &str = "rtsignal";

/// A chart with the words around it.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) text: String,
    /// Families of colours that need a legend.
    pub(super) legend: Vec<Family>,
    pub(super) drawing: String,
    pub(super) table: Option<RatioTable>,
}

impl Figure {
    pub(super) fn of_lines(title: &str, text: &str, chart: &LineChart) -> Self {
        Self {
            title: title.to_owned(),
            text: text.to_owned(),
            legend: chart.families(),
            drawing: chart.draw(),
            table: None,
        }
    }
}

/// Numbers measured, beside what was published.
pub(super) struct RatioTable {
    /// Of all columns but that of the names: time, measured ratio, published ratio.
    pub(super) heads: [String; 3],
    /// How a ratio is written.
    pub(super) ratio: fn(f64) -> String,
    pub(super) rows: Vec<RatioLine>,
}

/// A row of [`RatioTable`].
pub(super) struct RatioLine {
    pub(super) name: String,
    /// In what the head says.
    pub(super) time: Option<f64>,
    pub(super) measured: Option<f64>,
    pub(super) published: Option<f64>,
}

/// A figure of P1: which rings it compares with RT signals.
struct P1Figure {
    number: u32,
    title: &'static str,
    /// P1's number of threads, ours, and the methods.
    rows: Vec<(u64, u64, &'static str)>,
}

/// P1's figures, those without any measured ratio left out.
pub(super) fn of_p1(results: &Results) -> Vec<Figure> {
    let cpus = results.host.cpus as u64;
    let (all, more) = ((P1_CPUS, cpus), (P1_CPUS + 1, cpus.saturating_add(1)));
    let at = |(paper, here): (u64, u64), methods: &[&'static str]| {
        methods.iter().map(|method| (paper, here, *method)).collect::<Vec<_>>()
    };
    let scale =
        [10, 100, 1000].into_iter().flat_map(|size| at((size, size), &[P1_METHOD, "daiko"]));
    let figures = [
        P1Figure {
            number: 3,
            title: "One thread per CPU: polling is fast",
            rows: at(all, &["polling"]),
        },
        P1Figure {
            number: 4,
            title: "One thread more: polling collapses",
            rows: at(more, &["polling"]),
        },
        P1Figure {
            number: 6,
            title: "An agent that wakes by signals loses the gain",
            rows: at(more, &["agent+rtsignal"]),
        },
        P1Figure {
            number: 11,
            title: "An agent that switches to fibers keeps it",
            rows: at(more, &["agent+rtsignal", P1_METHOD, "daiko-watch", "daiko"]),
        },
        P1Figure { number: 12, title: "And keeps it with many threads", rows: scale.collect() },
    ];
    figures.iter().filter_map(|figure| draw_p1(results, figure)).collect()
}

fn draw_p1(results: &Results, figure: &P1Figure) -> Option<Figure> {
    let several = figure.rows.iter().any(|row| row.1 != figure.rows[0].1);
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for &(paper, here, method) in &figure.rows {
        let name = if several { format!("{method}, n = {here}") } else { method.to_owned() };
        let published = published::p1_ratio(method, paper, SIGNALS);
        let measured = ratio_span(results, method, here);
        if measured.is_none() && published.is_none() {
            continue;
        }
        let time = ring_point(results, method, here).map(|point| point.median);
        let median = measured.map(|span| span.median);
        lines.push(RatioLine { name: name.clone(), time, measured: median, published });
        rows.push(RatioRow { name, family: family(method), published, measured });
    }
    rows.iter().find(|row| row.measured.is_some())?;
    let (paper, here, _) = figure.rows[0];
    let sizes = if several {
        "the same numbers of threads".to_owned()
    } else {
        format!("n = {here} threads here, {paper} in the paper")
    };
    let derived = match rows.iter().any(|row| row.name == "agent+rtsignal") {
        true => {
            " The paper says \"no faster\" of agent+rtsignal; its ratio follows from 5.21x and 5.95x."
        }
        false => "",
    };
    let chart = RatioChart {
        label: format!("Speed relative to RT signals, measured and published: {}", figure.title),
        axis: "times as fast as RT signals".into(),
        rows,
    };
    Some(Figure {
        title: format!("P1, figure {}: {}", figure.number, figure.title),
        text: format!(
            "Times as fast as RT signals, {sizes}. Filled: measured here, with range; hollow: published.{derived}"
        ),
        legend: Vec::new(),
        drawing: chart.draw(),
        table: Some(RatioTable {
            heads: ["ns per hop", "measured", "published"].map(String::from),
            ratio: format::ratio,
            rows: lines,
        }),
    })
}

/// The speed of `method` relative to signals; the range pairs the extremes.
fn ratio_span(results: &Results, method: &str, threads: u64) -> Option<Span> {
    let median = ring_ratio(results, method, SIGNALS, threads)?;
    let (base, own) =
        (ring_point(results, SIGNALS, threads)?, ring_point(results, method, threads)?);
    Some(Span { median, min: base.min / own.max, max: base.max / own.min })
}

/// The ring curve: one line per method.
pub(super) fn ring_curve(results: &Results) -> Option<Figure> {
    let ring = results.measured().filter(|point| point.experiment == "ring");
    let mut sizes: Vec<u64> =
        ring.clone().filter_map(|point| point.params.number("threads")).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut methods: Vec<&str> = Vec::new();
    for point in ring {
        if !methods.contains(&point.method.as_str()) {
            methods.push(&point.method);
        }
    }
    let mut lines: Vec<Line> = methods
        .into_iter()
        .map(|method| Line {
            name: method.to_owned(),
            family: family(method),
            points: curve(&sizes, |size| ring_point(results, method, size)),
        })
        .collect();
    lines.push(Line {
        name: "assembly-ring".into(),
        family: Family::Limit,
        points: curve(&sizes, |size| limit_point(results, size)),
    });
    lines.retain(|line| !line.points.is_empty());
    let limit = lines.iter().any(|line| line.family == Family::Limit);
    let text = RING_TEXT.to_owned() + if limit { LIMIT_TEXT } else { "" };
    lines.sort_by_key(|line| line.family);
    let chart = LineChart {
        label: "Nanoseconds per hop against number of threads, one line per method".into(),
        x: "threads in the ring".into(),
        y: "ns per hop".into(),
        ticks_at_values: true,
        linear_x: false,
        linear_y: false,
        name_ends: false,
        lines,
    };
    (!chart.lines.is_empty())
        .then(|| Figure::of_lines("The ring: how long a thread waits for another", &text, &chart))
}

const RING_TEXT: &str = "Time of one hop against the number of threads in the ring, of which one runs \
     and all others wait. Shuffled order; kernel threads on all allowed CPUs, libraries on one \
     worker where they have one. Marks are medians, bars reach from the fastest to the slowest run.";

const LIMIT_TEXT: &str = " assembly-ring is the limit: a bare switch with no scheduler at all.";

fn curve<'a>(sizes: &[u64], point: impl Fn(u64) -> Option<&'a Point>) -> Vec<LinePoint> {
    let point = |&size: &u64| {
        Some(LinePoint { x: size as f64, y: span(point(size)?), means: format!("n = {size}") })
    };
    sizes.iter().filter_map(point).collect()
}

fn limit_point(results: &Results, threads: u64) -> Option<&Point> {
    results.measured().find(|point| {
        point.method == "assembly-ring" && point.params.number("threads") == Some(threads)
    })
}

/// What waiting costs in CPU against how soon a waiter wakes.
pub(super) fn governor_curve(results: &Results) -> Option<Figure> {
    let points: Vec<&Point> =
        results.measured().filter(|point| point.experiment == "governor").collect();
    let mut methods: Vec<&str> = Vec::new();
    for point in &points {
        if !methods.contains(&point.method.as_str()) {
            methods.push(&point.method);
        }
    }
    let lines: Vec<Line> = methods
        .into_iter()
        .map(|method| Line {
            name: method.to_owned(),
            family: if method == "futex" { Family::Kernel } else { Family::Ours },
            points: governor_line(&points, method),
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let chart = LineChart {
        label: "CPU use against median wake latency, one line per preset".into(),
        x: "wake latency, ns (median)".into(),
        y: "CPU, % of one".into(),
        ticks_at_values: false,
        linear_x: false,
        linear_y: true,
        name_ends: true,
        lines,
    };
    (!chart.lines.is_empty())
        .then(|| Figure::of_lines("The price in CPU of waking fast", GOVERNOR_TEXT, &chart))
}

const GOVERNOR_TEXT: &str = "Each mark is one rate of wake-ups: the CPU time used, in per cent of one \
     CPU, against the median time from a wake to its waiter running, with the fewest agents measured. \
     Lower and further left is better. The tables tell what idling costs, and what more agents do.";

/// One mark per rate, the lowest first, with the fewest agents measured.
fn governor_line(points: &[&Point], method: &str) -> Vec<LinePoint> {
    let of_method = || points.iter().filter(|point| point.method == method);
    let agents = |point: &&Point| point.params.number("agents");
    let fewest = of_method().map(agents).min().flatten();
    let of_method = || of_method().filter(|point| agents(point) == fewest);
    let latencies = of_method().filter(|point| {
        point.unit == Unit::Nanoseconds && matches!(point.params.text("stat"), None | Some("p50"))
    });
    let mut line: Vec<(u64, LinePoint)> = latencies
        .filter_map(|latency| {
            let rate = latency.params.number("rate")?;
            let mut loads = of_method().filter(|point| {
                let same = |key| point.params.get(key) == latency.params.get(key);
                point.unit == Unit::CpuPercent && same("rate")
            });
            let means = format!("{}/s", format::count(rate));
            Some((rate, LinePoint { x: latency.median, y: span(loads.next()?), means }))
        })
        .collect();
    line.sort_by_key(|(rate, _)| *rate);
    line.into_iter().map(|(_, point)| point).collect()
}

pub(super) fn span(point: &Point) -> Span {
    Span { median: point.median, min: point.min, max: point.max }
}

fn family(method: &str) -> Family {
    match method {
        "rtsignal" | "polling" | "agent+rtsignal" | "futex" | "semaphore" | "condvar"
        | "eventfd" | "pipe" => Family::Kernel,
        "dropin" => Family::Ours,
        _ if method.starts_with("daiko") => Family::Ours,
        _ => Family::Peer,
    }
}
