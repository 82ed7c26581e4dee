//! Throughput and CPU time of applications, relative to the native run of the same case.

use super::list::find;
use crate::kit::{
    Bar, BarChart, BarGroup, Chart, Drawing, Family, Params, Point, Points, Results, Section,
    format,
};

/// The name of the experiment.
pub(super) const NAME: &str = "apps";

/// The names of the methods.
pub(super) const NATIVE: &str = "native";
pub(super) const DAIKO_RUN: &str = "daiko-run";

const THROUGHPUT_TEXT: &str = "Work done per second by unmodified applications under daiko run, \
     relative to the native run of the same application with the same number of threads \
     (connections, for MariaDB). Bars reach from 1, which is native: to the right is better. Thin \
     lines reach from the least to the greatest ratio of two runs. Loads of servers share the CPUs \
     with them. The tables have the absolute figures.";

const CPU_TEXT: &str = "CPU time of the application for each unit of work, in user space and in \
     the kernel, relative to the same native runs: to the left is better. CPU time of loads is not \
     included.";

/// A quantity of applications.
struct Quantity {
    stat: &'static str,
    file: &'static str,
    title: &'static str,
    text: &'static str,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        stat: "throughput",
        file: "apps-throughput.svg",
        title: "Unmodified applications: throughput",
        text: THROUGHPUT_TEXT,
    },
    Quantity {
        stat: "cpu",
        file: "apps-cpu.svg",
        title: "Unmodified applications: CPU time of a unit of work",
        text: CPU_TEXT,
    },
];

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let drawing = |quantity: &Quantity| quantity.drawing(&results.of(NAME));
    QUANTITIES.iter().filter_map(drawing).map(Section::Drawing).collect()
}

impl Quantity {
    /// Draws a group of bars for each application and number of threads with a native run.
    fn drawing(&self, own: &Points<'_>) -> Option<Drawing> {
        let points = own.with("stat", self.stat);
        let (native, ours) = (points.method(NATIVE), points.method(DAIKO_RUN));
        let group = |base: &Point| {
            let of = &base.params;
            let own = ours.filter(|point| without_workers(&point.params) == *of);
            let bar = |point: &Point| {
                let value = point.spread().over(base.spread());
                Bar { name: workers(&point.params), family: Family::Ours, value }
            };
            let bars: Vec<Bar> = own.iter().map(bar).collect();
            (!bars.is_empty()).then(|| BarGroup { name: named(of), bars })
        };
        let groups: Vec<BarGroup> = native.iter().filter_map(group).collect();
        let has_groups = !groups.is_empty();
        let chart = BarChart {
            label: format!("{}, relative to native, by application and workers", self.title),
            axis: "times that of the native run".into(),
            reference: Some(1.0),
            groups,
        };
        let drawing = Drawing::new(self.file, self.title, self.text, Chart::Bars(chart));
        has_groups.then_some(Drawing { has_legend: false, ..drawing })
    }
}

fn without_workers(params: &Params) -> Params {
    let kept = params.iter().filter(|(key, _)| *key != "workers");
    kept.fold(Params::new(), |params, (key, value)| params.with(key, value.clone()))
}

fn workers(params: &Params) -> String {
    match params.number("workers") {
        Some(1) => "1 worker".into(),
        number => format!("{} workers", number.unwrap_or_default()),
    }
}

/// The application, its number of threads, and its unit of work.
fn named(params: &Params) -> String {
    let app = params.text("app").unwrap_or_default();
    let threads =
        params.number("threads").map(|number| format!(", {} threads", format::count(number)));
    let unit = find(app).map(|app| format!(" ({})", app.unit));
    [Some(app.into()), threads, unit].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use crate::kit::Params;
    use crate::report::drawings;
    use crate::testing::made_up::{application, applications};
    use crate::testing::{page, results};

    fn drawing(name: &str) -> String {
        let drawings = drawings(&results(applications()));
        drawings.into_iter().find(|(found, _)| *found == name).expect(name).1
    }

    #[test]
    fn bars_are_relative_to_the_native_run_of_the_same_case() {
        let drawing = drawing("apps-throughput.svg");
        for title in [
            "<title>1 worker, redis (requests): 0.500 (0.375 to 0.667)</title>",
            "<title>2 workers, redis (requests): 2.00 (",
            "<title>2 workers, mariadb, 64 threads (transactions): 3.00 (",
        ] {
            assert!(drawing.contains(title), "{title}: {drawing}");
        }
        assert_eq!(drawing.matches("<rect ").count(), 3, "without a native run there is no bar");
    }

    #[test]
    fn cpu_time_has_a_drawing_of_its_own() {
        let drawing = drawing("apps-cpu.svg");
        assert!(drawing.contains("<title>1 worker, redis (requests): 1.50 ("), "{drawing}");
        assert_eq!(drawing.matches("<line class=\"one\"").count(), 1, "a line at 1");
    }

    #[test]
    fn native_runs_alone_are_no_drawing() {
        let alone = page(application("native", &Params::new().with("app", "redis"), 1.0, 1.0));
        assert!(!alone.contains("<svg") && alone.contains("app=redis"), "{alone}");
    }
}
