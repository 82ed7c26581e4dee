use super::*;
use crate::{
    kit::{Case, Failure, Params, Reading, Sample, Skip, Unit, processes},
    runner::{Measured, Schedule, Series},
};

fn series(experiment: &str, method: &str, params: Params, readings: Vec<Reading>) -> Series {
    let case = Case { experiment: experiment.into(), method: method.into(), params };
    let sample = |factor: f64| {
        let scaled = readings.iter().cloned().map(|mut reading| {
            reading.value *= factor;
            reading
        });
        Sample { rounds: 9, elapsed: Schedule::QUICK.target, readings: scaled.collect() }
    };
    Series { case, rounds: 9, samples: [0.9, 1.0, 1.2].map(sample).into() }
}

fn ring(method: &str, threads: u64, ns: f64) -> Series {
    let params = Params::new().with("threads", threads).with("order", "shuffled");
    series("ring", method, params, vec![Reading::new(Unit::Nanoseconds, ns)])
}

fn salesman(method: &str, params: Params, ms: f64) -> Series {
    let readings =
        vec![Reading::new(Unit::Nanoseconds, ms * 1e6), Reading::stat(Unit::Count, "nodes", 320.0)];
    series("tsp", method, params, readings)
}

fn salesmen() -> Vec<Series> {
    let mut all = Vec::new();
    for (cities, ms) in [(6u64, 0.01), (11, 40.0)] {
        let params = || Params::new().with("cities", cities);
        let relaxed = || params().with("prune", "relaxed");
        all.push(salesman("sequential", params(), ms));
        all.push(salesman("nptl", relaxed(), ms * 0.7));
        all.push(salesman("nptl", params().with("prune", "locked"), ms * 777.0));
        all.push(salesman("daiko", relaxed().with("workers", 1u64), ms * 1.1));
        all.push(salesman("daiko", relaxed().with("workers", 2u64), ms * 0.55));
        all.push(salesman("daiko-processes", relaxed().with("workers", 2u64), ms * 0.6));
    }
    all
}

fn cost(method: &str, item: &str, ns: f64) -> Series {
    let params = Params::new().with("item", item);
    series("costs", method, params, vec![Reading::new(Unit::Nanoseconds, ns)])
}

fn round_trip(method: &str, placement: &str, clients: u64, ns: f64) -> Series {
    let params = Params::new().with("bytes", 8u64).with("placement", placement);
    let readings = vec![
        Reading::new(Unit::Nanoseconds, ns),
        Reading::stat(Unit::Nanoseconds, "max", ns * 1e6),
        Reading::stat(Unit::PerSecond, "throughput", 1e9 / ns),
        Reading::stat(Unit::Ratio, "share", 0.5),
    ];
    series("ipc", method, params.with("clients", clients), readings)
}

fn round_trips(placement: &str) -> Vec<Series> {
    let mut all = vec![round_trip("spin", placement, 1, 111.0)];
    for clients in [16, 1, 4] {
        all.push(round_trip("tcp", placement, clients, 7000.0 * clients as f64));
    }
    all
}

fn served(method: &str, connections: u64, pipeline: u64, each_ns: f64) -> Series {
    let params = Params::new().with("connections", connections).with("pipeline", pipeline);
    let readings = vec![
        Reading::stat(Unit::PerSecond, "throughput", 0.8e9 / each_ns),
        Reading::stat(Unit::PerSecond, "cpu-throughput", 1e9 / each_ns),
        Reading::stat(Unit::CpuPercent, "server-cpu", 80.0),
        Reading::stat(Unit::Nanoseconds, "p99", each_ns * 50.0),
    ];
    series("serve", method, params, readings)
}

fn servers() -> Vec<Series> {
    let mut all = Vec::new();
    for (method, each_ns) in [("kv", 5000.0), ("redis", 6250.0), ("echo-threads", 8000.0)] {
        all.push(served(method, 10_000, 1, each_ns * 2.0));
        all.push(served(method, 1, 1, each_ns));
        all.push(served(method, 1, 16, each_ns / 8.0));
    }
    all
}

/// Figures of P3 at three lags.
fn followed() -> Vec<Series> {
    let mut all = Vec::new();
    for (lag, unintended, left) in [(0u64, 0.02, 0.6), (20, 0.08, 0.52), (1000, 0.05, 0.5)] {
        for (method, factor) in [("existing", 1.0), ("follow", left)] {
            let params = Params::new().with("cpus", 12u64).with("flows", 512u64);
            let params = params.with("rate", 100u64).with("lag", lag);
            let readings = vec![
                Reading::stat(Unit::PerSecond, "migrations", 3000.0 * factor),
                Reading::stat(Unit::Ratio, "unintended", unintended),
                Reading::stat(Unit::Count, "settle-mean", 1.25),
                Reading::stat(Unit::Count, "settle-max", 8.0),
            ];
            all.push(series("follow-sim", method, params, readings));
        }
    }
    all
}

/// A run with everything: all of P1's figures, a governor, costs, salesmen, processes,
/// gaps and faults.
fn full() -> Results {
    let mut host = Host::detect();
    host.cpus = 2;
    host.cpu = "A & B <processor> \"quoted\" \u{1b}[1m\0\u{ffff}".into();
    let mut all = Vec::new();
    for threads in [2, 3, 10, 100, 1000] {
        for (method, ns) in [
            ("rtsignal", 5000.0),
            ("agent+rtsignal", 5500.0),
            ("daiko-watch-p1", 700.0),
            ("daiko", 10.0),
            ("tokio", 110.0),
        ] {
            all.push(ring(method, threads, ns * (1.0 + threads as f64 / 1000.0)));
        }
    }
    all.push(ring("polling", 2, 130.0));
    all.push(ring("polling", 3, 2_666_665.0));
    for (rate, latency, cpu) in [(10u64, 4000.0, 0.1), (100_000, 300.0, 99.0)] {
        let readings = vec![
            Reading::stat(Unit::Nanoseconds, "p50", latency),
            Reading::new(Unit::CpuPercent, cpu),
        ];
        all.push(series("governor", "balanced", Params::new().with("rate", rate), readings));
    }
    all.extend(salesmen());
    all.extend(round_trips("two-cpus"));
    all.extend(round_trips("one-cpu"));
    all.extend(servers());
    all.extend(followed());
    all.extend([
        cost("nptl", "mutex", 12.0),
        cost("daiko", "mutex", 9.0),
        cost("daiko", "yield", 9.0),
        cost("semop", "mutex-unlock", 360.0),
    ]);
    let case = |method: &str| ring(method, 10, 1.0).case;
    let measured = Measured {
        series: all,
        skipped: vec![(case("go"), Skip::new("go <not> installed & so on")); 3],
        failed: vec![(case("futex"), Failure::Broken("hung".into()))],
        interrupted: true,
    };
    Results::new(host, &measured, Schedule::QUICK)
}

fn page(results: &Results) -> String {
    html(results, Path::new("report.html"))
}

#[test]
fn the_curves_stand_alone() {
    let drawings = drawings(&full());
    assert_eq!(
        drawings.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        [
            "ring.svg",
            "governor.svg",
            "tsp.svg",
            "ipc.svg",
            "serve.svg",
            "serve-pipeline.svg",
            "serve-latency.svg",
            "follow-sim.svg",
            "follow-sim-settling.svg",
            "follow-sim-migrations.svg"
        ]
    );
    for (name, svg) in drawings {
        let document = roxmltree::Document::parse(&svg).expect(name);
        assert!(document.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
        assert!(document.descendants().any(|node| node.has_tag_name("style")), "{name}");
    }
}

#[test]
fn the_page_and_all_its_drawings_are_well_formed() {
    let html = page(&full());
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&html, options).expect("well-formed");
    let drawings: Vec<_> =
        document.descendants().filter(|node| node.tag_name().name() == "svg").collect();
    // The ring curve, five figures of P1, the governor curve, the salesman's, that of processes and
    // three of servers, three of simulated wake-ups, each for two widths.
    assert_eq!(drawings.len(), 30);
    for drawing in drawings {
        assert!(drawing.attribute("aria-label").is_some_and(|label| !label.is_empty()));
    }
    for text in html.split('"').chain(html.split(' ')) {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
}

#[test]
fn the_governor_curve_is_of_the_fewest_agents() {
    let point = |rate: u64, agents: u64| {
        let params = Params::new().with("rate", rate).with("agents", agents);
        let readings = vec![
            Reading::new(Unit::CpuPercent, 1.0),
            Reading::stat(Unit::Nanoseconds, "p50", 400.0),
        ];
        series("governor", "balanced", params, readings)
    };
    let all = vec![point(777, 2), point(1000, 1), point(10, 1)];
    let measured = Measured { series: all, ..Measured::default() };
    let html = page(&Results::new(Host::detect(), &measured, Schedule::QUICK));
    assert!(html.contains("1000/s"), "one agent's mark");
    assert!(!html.contains("777/s"), "a mark of two agents");
}

#[test]
fn the_salesman_has_a_line_for_each_method_and_number_of_workers() {
    let html = page(&full());
    for name in ["sequential", "nptl", "daiko, 1 worker", "daiko, 2 workers"] {
        assert!(html.contains(&format!("{name}, 11 cities: ")), "{name}");
    }
    assert!(html.contains("sequential, 6 cities: 0.0100 (0.00900 to 0.0120)"), "in milliseconds");
    assert!(!html.contains("31,080 ("), "a mark of what locks often");
}

#[test]
fn the_salesman_is_compared_where_the_paper_does() {
    let here = "Here, with 11 cities, of the time without threads: daiko, 1 worker 110%; \
                daiko, 2 workers 55%; daiko-processes, 2 workers 60%; nptl 70%.";
    assert!(page(&full()).contains(here), "no such sentence");
    let few = salesman("sequential", Params::new().with("cities", 6u64), 1.0);
    let measured = Measured { series: vec![few], ..Measured::default() };
    let html = page(&Results::new(Host::detect(), &measured, Schedule::QUICK));
    assert!(html.contains("P2, figure 2: ") && !html.contains("Here, with"), "nothing to compare");
}

#[test]
fn the_published_ratio_of_the_salesman_stands_beside_ours_on_most_workers() {
    let row = |name: &str, cells: &str| {
        format!(r#"<tr><th scope="row">{name}</th><td>{cells}</td></tr>"#).replace('|', "</td><td>")
    };
    let html = page(&full());
    for row in [
        row("daiko, 1 worker", "44.0|100%|\u{2013}"),
        row("daiko, 2 workers", "22.0|50%|\u{2013}"),
        row("daiko-processes, 2 workers", "24.0|55%|60%"),
        row("nptl", "28.0|64%|\u{2013}"),
        row("sequential", "40.0|91%|\u{2013}"),
    ] {
        assert!(html.contains(&row), "{row}");
    }
    let mut alone = salesmen();
    alone.retain(|series| series.case.params.number("workers") != Some(1));
    let measured = Measured { series: alone, ..Measured::default() };
    let html = page(&Results::new(Host::detect(), &measured, Schedule::QUICK));
    assert!(
        html.contains("P2, figure 2: ") && !html.contains("of that of PTL"),
        "nothing like PTL"
    );
}

/// The curve of processes.
fn ipc_drawing(measured: Vec<Series>) -> Figure {
    let measured = Measured { series: measured, ..Measured::default() };
    ipc::curve(&Results::new(Host::detect(), &measured, Schedule::QUICK)).expect("a figure")
}

#[test]
fn the_curve_of_processes_is_of_medians_on_two_cpus() {
    let drawing = page(&full());
    assert!(drawing.contains("<title>spin, 1 client: 111 (99.9 to 133)</title>"));
    let figure = ipc_drawing([round_trips("one-cpu"), round_trips("two-cpus")].concat());
    assert_eq!(figure.drawing.matches("<title>tcp, 16 clients: ").count(), 2, "once per width");
    assert!(figure.text.ends_with("The server is on one CPU, all clients are on another."));
    let long = |mut series: Series| {
        series.case.params = series.case.params.with("bytes", 64u64);
        series
    };
    let figure = ipc_drawing(
        round_trips("two-cpus").into_iter().map(long).chain(round_trips("one-cpu")).collect(),
    );
    assert!(figure.text.ends_with("on one CPU."), "what was measured, of short messages");
}

fn drawing(name: &str) -> String {
    let drawing = drawings(&full()).into_iter().find(|(found, _)| *found == name);
    drawing.expect(name).1
}

#[test]
fn servers_are_bars_in_groups_of_connections() {
    let drawing = drawing("serve.svg");
    let heads = ["1 connection", "10k connections"];
    let heads = heads.map(|head| drawing.find(&format!(">{head}</text>")).expect(head));
    assert!(heads.is_sorted(), "{heads:?}");
    assert!(drawing.contains("<title>kv, 1 connection: 200,000 (180,000 to 240,000)</title>"));
    assert_eq!(drawing.matches("<rect class=\"bar ours\"").count(), 2);
    assert_eq!(drawing.matches("<rect class=\"bar kernel\"").count(), 2);
}

#[test]
fn requests_sent_together_have_bars_of_their_own() {
    let drawing = drawing("serve-pipeline.svg");
    assert!(drawing.contains("<title>kv, 1 connection: 1,600,000 ("));
    assert_eq!(drawing.matches("<rect ").count(), 3);
}

#[test]
fn a_bar_is_as_long_as_its_value() {
    let drawing = drawing("serve.svg");
    let document = roxmltree::Document::parse(&drawing).unwrap();
    let width = |title: &str| -> f64 {
        let is_it = |node: &roxmltree::Node<'_, '_>| {
            node.text().is_some_and(|text| text.starts_with(title))
        };
        let title = document.descendants().find(is_it).expect(title);
        title.parent_element().unwrap().attribute("width").unwrap().parse().unwrap()
    };
    let (kv, redis) = (width("kv, 1 connection: "), width("redis, 1 connection: "));
    assert!((kv / redis - 1.25).abs() < 0.01, "{kv} {redis}");
}

#[test]
fn latencies_are_of_requests_one_by_one() {
    let drawing = drawing("serve-latency.svg");
    let mark = "<title>redis, 10k connections: 625,000 (562,500 to 750,000)</title>";
    assert!(drawing.contains(mark), "{drawing}");
    assert_eq!(drawing.matches("<title>redis, ").count(), 2, "one for each number of connections");
}

#[test]
fn clients_are_columns() {
    let html = page(&full());
    assert!(html.contains(r#"<th scope="col">clients 16</th>"#), "no such column");
    assert!(html.contains("<caption>ipc: 1/s, bytes=8, stat=throughput</caption>"));
}

#[test]
fn counts_have_a_table_of_their_own() {
    let html = page(&full());
    assert!(html.contains("<caption>tsp: count, stat=nodes</caption>"), "no such table");
}

#[test]
fn the_page_needs_no_network() {
    let html = page(&full());
    for fetched in ["src=", "href=", "@import", "url("] {
        assert!(!html.contains(fetched), "{fetched}");
    }
}

#[test]
fn the_published_ratio_stands_beside_the_measured_one() {
    let html = page(&full());
    let row = r#"<tr><th scope="row">daiko-watch-p1, n = 1000</th><td>1,400</td><td>7.14x</td><td>5.24x</td></tr>"#;
    assert!(html.contains(row), "no such row");
}

#[test]
fn the_published_ratios_of_p5_stand_beside_what_was_measured() {
    let row = |name: &str, cells: &str| format!(r#"<tr><th scope="row">{name}</th>{cells}</tr>"#);
    let html = page(&full());
    let mutex =
        row("mutex", "<td>12.0</td><td>9.00<small>0.750</small></td><td>0.8</td><td>1.1</td>");
    assert!(html.contains(&mutex), "no such row");
    let ours = vec![Series {
        case: Case {
            params: Params::new().with("item", "thread-info").with("of", "tls"),
            ..cost("daiko", "", 0.0).case
        },
        ..cost("daiko", "", 0.5)
    }];
    let measured = Measured { series: ours, ..Measured::default() };
    let html = page(&Results::new(Host::detect(), &measured, Schedule::QUICK));
    let tls = "<td>0.500</td><td>0.92</td><td>0.88</td>";
    assert!(html.contains(&row("thread-info, of=tls", tls)), "no such row without NPTL");
}

#[test]
fn without_an_item_of_p5_there_are_none_of_its_tables() {
    let heading = "The tables of P5";
    assert!(page(&full()).contains(heading));
    for series in [cost("daiko", "yield", 9.0), ring("daiko", 10, 9.0)] {
        let measured = Measured { series: vec![series], ..Measured::default() };
        let html = page(&Results::new(Host::detect(), &measured, Schedule::QUICK));
        assert!(!html.contains(heading));
    }
}

fn page_of(series: Vec<Series>) -> String {
    let measured = Measured { series, ..Measured::default() };
    page(&Results::new(Host::detect(), &measured, Schedule::QUICK))
}

#[test]
fn table_1_of_p2_stands_beside_what_mutexes_cost_here() {
    let measured = vec![cost("daiko", "mutex-lock", 6.0), cost("semop", "mutex-lock", 360.0)];
    let html = page_of(measured);
    let row =
        "<td>6.00</td><td>360<small>60.0</small></td><td>36</td><td>58<small>1.61</small></td>";
    assert!(html.contains(&format!(r#"<tr><th scope="row">mutex-lock</th>{row}</tr>"#)));
    assert!(!page_of(vec![cost("daiko", "mutex", 6.0)]).contains("Table 1 of P2"));
}

fn received(method: &str, flows: u64, rfs: &str, migrations: f64) -> Series {
    let params = Params::new().with("flows", flows).with("rfs", rfs);
    let readings = vec![
        Reading::stat(Unit::PerSecond, "migrations", migrations),
        Reading::stat(Unit::PerSecond, "swaps", migrations / 4.0),
        Reading::stat(Unit::CpuPercent, "cpu", 40.0),
        Reading::stat(Unit::Nanoseconds, "p99", 9000.0),
    ];
    series("follow", method, params, readings)
}

#[test]
fn the_tables_of_p3_stand_beside_receivers_of_the_most_flows() {
    let both = |flows, migrations| {
        let of = |rfs| {
            [
                received("daiko-pinned", flows, rfs, 0.0),
                received("daiko-mover", flows, rfs, migrations),
                received("daiko-follow", flows, rfs, migrations / 2.0),
            ]
        };
        [of("on"), of("off")].concat()
    };
    let html = page_of([both(128, 800.0), both(32, 9.0)].concat());
    assert!(
        html.contains("<caption>128 flows, RFS on") && html.contains("<caption>128 flows, RFS off")
    );
    assert!(!html.contains("<caption>32 flows"));
    let row = |name: &str, cells: &str| {
        format!(r#"<tr><th scope="row">{name}</th><td>{cells}</td></tr>"#).replace('|', "</td><td>")
    };
    let none = "\u{2013}";
    for row in [
        row(
            "2: unintended, % of migrations",
            &format!("{none}|25.0|25.0<small>1.00</small>|8.00|{none}"),
        ),
        row("3: migrations, 1/s", "0|800|400<small>0.50</small>|2,200|1,142<small>0.52</small>"),
        row("3: migrations, 1/s", "0|800|400<small>0.50</small>"),
        row(
            "3: llc-load-misses, 1/s",
            "not measurable here|not measurable here|not measurable here|7,228|7,085<small>0.98</small>",
        ),
        row("4: CPU use, %", "40.0|40.0|40.0<small>1.00</small>|25.3|24.0<small>0.95</small>"),
    ] {
        assert!(html.contains(&row), "{row}");
    }
    assert!(!page(&full()).contains("Tables 2 to 4 of P3"), "nothing to show");
}

#[test]
fn worker_processes_are_compared_with_the_same_on_threads() {
    let layout = |method: &str, layout: &str, ns: f64| {
        let mut series = ring(method, 10, ns);
        series.case.params = series.case.params.with("layout", layout);
        series
    };
    let pair =
        || series("limits", "rmw-pair", Params::new(), vec![Reading::new(Unit::Nanoseconds, 10.0)]);
    let ours = processes::METHOD;
    let html = page_of(vec![
        pair(),
        layout("daiko-mover", "half", 20.0),
        layout("daiko-mover", "free", 20.0),
        layout(ours, "half", 22.0),
        layout(ours, "free", 90.0),
        layout(ours, "cross", 90.0),
        cost(ours, "mutex", 13.0),
        salesman("daiko", Params::new().with("cities", 11u64), 40.0),
        salesman(ours, Params::new().with("cities", 11u64), 41.0),
    ]);
    let row = |what: &str, cells: &str| {
        let cells = cells.replace('|', "</td><td>");
        format!(r#"<tr><th scope="row">{what}</th><td class="text">{cells}</td></tr>"#)
    };
    for row in [
        row(
            "hop, threads=10 order=shuffled layout=half",
            "daiko-mover|20.0|22.0|1.10|\u{2264} 1.15",
        ),
        row("mutex pair", "rmw-pair|10.0|13.0|1.30|\u{2264} 1.35"),
        row("travelling salesman, cities=11", "daiko|40,000,000|41,000,000|1.02|\u{2264} 1.05"),
    ] {
        assert!(html.contains(&row), "{row}");
    }
    assert_eq!(html.matches("<tr><th scope=\"row\">hop, ").count(), 1, "what can be compared");
    let heading = "Workers that are processes";
    assert!(!page_of(vec![pair(), cost("daiko", "mutex", 9.0)]).contains(heading));
}

#[test]
fn sleepers_have_a_table_with_what_is_to_be_reached() {
    let sleep = |method: &str, state: &str, timers: u64, ns: f64| {
        let params = Params::new().with("item", "sleep-lateness").with("state", state);
        let worst = Reading::stat(Unit::Nanoseconds, "max", 9.0 * ns);
        let readings = vec![Reading::new(Unit::Nanoseconds, ns), worst];
        series("costs", method, params.with("timers", timers), readings)
    };
    let all = vec![
        sleep("nptl", "polling", 0, 60_000.0),
        sleep("daiko", "polling", 1000, 950.0),
        sleep("daiko", "polling", 0, 900.0),
        sleep("nptl", "parked", 0, 70_000.0),
    ];
    let measured = Measured { series: all, ..Measured::default() };
    let html = page(&Results::new(Host::detect(), &measured, Schedule::QUICK));
    let rows: Vec<&str> = html.split("<tr>").filter(|row| row.contains("\u{2264}")).collect();
    let row = |state: &str, cells: &str| {
        format!(r#"<th scope="row">{state}</th><td>{cells}</td></tr>"#).replace('|', "</td><td>")
    };
    assert!(rows[0].starts_with(&row("polling", "0|60,000|900|\u{2264} 2,000")), "{rows:?}");
    assert!(rows[1].starts_with(&row("polling", "1000|\u{2013}|950|\u{2264} 2,000")), "{rows:?}");
    assert!(rows[2].starts_with(&row("parked", "0|70,000|\u{2013}|\u{2264} 80,000")), "{rows:?}");
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(!page(&full()).contains("How late a sleeper"), "nothing to show");
}

#[test]
fn every_figure_of_the_paper_is_redrawn() {
    let html = page(&full());
    for number in [3, 4, 6, 11, 12] {
        assert!(html.contains(&format!("P1, figure {number}: ")), "figure {number}");
    }
}

#[test]
fn what_is_missing_is_counted_with_its_reason() {
    let html = page(&full());
    assert!(html.contains("Left out: 3 points"));
    assert!(html.contains("go &lt;not&gt; installed &amp; so on"));
    assert!(html.contains("Failed: 1 points"));
    assert!(html.contains("Stopped before its end"));
}

#[test]
fn an_empty_run_is_a_page_too() {
    let results = Results::new(Host::detect(), &Measured::default(), Schedule::QUICK);
    let html = page(&results);
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(&html, options).expect("well-formed");
    assert!(!html.contains("<svg"));
}

#[test]
fn what_p3_found_stands_beside_what_is_simulated() {
    let results = full();
    let figures = follow_sim::figures(&results);
    let [(_, unintended), (_, settling), (_, migrations)] = &figures[..] else { panic!("three") };
    assert!(
        unintended.text.contains("before them it is 2.00%. P3: Core i7"),
        "{}",
        unintended.text
    );
    assert!(unintended.drawing.contains("P3: 8%"));
    assert!(unintended.drawing.contains("lag 20 \u{b5}s: 8.00 (7.20 to 9.60)"), "in per cent");
    assert!(settling.drawing.contains("P3: mean 1.21") && settling.drawing.contains("P3: most 9"));
    assert!(migrations.drawing.contains("lag 20 \u{b5}s: 52.0 ("), "of those of the other policy");
    let table = unintended.table.as_ref().expect("a table");
    assert_eq!(table.heads[1], "simulated, lag 20 \u{b5}s", "where unintended ones are nearest");
    let row = &table.rows[3];
    assert_eq!(
        (row.time, row.measured, row.published),
        (Some(0.6), Some(0.52), Some(1142.0 / 2200.0))
    );
    assert_eq!(table.rows[4].measured, None, "no use of CPUs was read");
}
