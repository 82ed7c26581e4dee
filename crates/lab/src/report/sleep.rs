//! How late sleepers are resumed, by method, beside what Daiko is to reach.

use super::{Page, svg::Escaped};
use crate::{
    kit::{
        format,
        results::{Point, Results},
    },
    report::table::distinct,
};

const ITEM: &str = "sleep-lateness";

/// What Daiko is to reach in each `state`: a median of at most so many nanoseconds.
const REACH: [(&str, f64); 2] = [("polling", 2_000.0), ("parked", 80_000.0)];

/// What stands before the table.
const TEXT: &str = "From when a sleep was to end until its thread ran again, the median in nanoseconds. In the \
     state polling a sleep takes 20 \u{b5}s, and the agent of Daiko's one worker polls meanwhile; in the state \
     parked it takes 5 ms, and the worker has parked. Others wait for something else meanwhile, with \
     timeouts of an hour and more. Nothing else happens.";

/// What the methods have to bear.
const HINT: &str = "nptl sleeps by clock_nanosleep to an absolute time, on one CPU, with the timer slack that \
     Linux gives every thread: 50 \u{b5}s, by which a sleep may take longer. Timers of tokio tick once in a \
     millisecond, on which a sleep ends. Daiko's workers have a timer slack of 1 ns, its timers tick once in \
     1,024 ns.";

impl Page {
    /// The section, if there is anything to show.
    pub(super) fn sleep(&mut self, results: &Results) {
        let points: Vec<&Point> = results.measured().filter(|point| is_median(point)).collect();
        if points.is_empty() {
            return;
        }
        let methods = distinct(points.iter().map(|point| point.method.as_str()));
        self.add(format_args!("<section><h2>How late a sleeper is resumed</h2><p>{TEXT}</p>"));
        self.open_scroll("how late a sleeper is resumed");
        self.sleep_head(&methods);
        for (state, reach) in REACH {
            let of_state = |point: &&&Point| point.params.text("state") == Some(state);
            let rows: Vec<&Point> = points.iter().filter(of_state).copied().collect();
            let mut timers =
                distinct(rows.iter().filter_map(|point| point.params.number("timers")));
            timers.sort_unstable();
            for timers in timers {
                self.sleep_row(state, timers, &rows, &methods, reach);
            }
        }
        self.add(format_args!(r#"</tbody></table></div><p class="hint">{HINT}</p></section>"#));
    }

    fn sleep_head(&mut self, methods: &[&str]) {
        self.0.push_str(
            r#"<table><thead><tr><th class="text" scope="col">state</th><th scope="col">others</th>"#,
        );
        for method in methods {
            self.add(format_args!(r#"<th scope="col">{}, ns</th>"#, Escaped(method)));
        }
        self.0.push_str(r#"<th scope="col">daiko is to reach</th></tr></thead><tbody>"#);
    }

    fn sleep_row(
        &mut self,
        state: &str,
        timers: u64,
        points: &[&Point],
        methods: &[&str],
        reach: f64,
    ) {
        let others = format::count(timers);
        self.add(format_args!(r#"<tr><th scope="row">{state}</th><td>{others}</td>"#));
        for method in methods {
            let same = |point: &&&Point| {
                point.method == *method && point.params.number("timers") == Some(timers)
            };
            let median = points.iter().find(same).map(|point| format::number(point.median));
            self.add(format_args!("<td>{}</td>", median.as_deref().unwrap_or("\u{2013}")));
        }
        self.add(format_args!("<td>\u{2264} {}</td></tr>", format::number(reach)));
    }
}

fn is_median(point: &Point) -> bool {
    let params = &point.params;
    point.experiment == "costs" && params.text("item") == Some(ITEM) && params.get("stat").is_none()
}
