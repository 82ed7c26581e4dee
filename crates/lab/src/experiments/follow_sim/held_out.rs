//! P3's figures under parameters of other origin than a search for them, and migrations per
//! wake-up.

use super::model::Model;
use super::parameters::{ParameterSet, params};
use super::published::{self, NAME};
use super::tally::{SPANS, back};
use crate::kit::{Cell, Choice, DataTable, Part, Points, Results, Section, format};

const TEXT: &str = "Two sets of parameters come from elsewhere than a search for P3's figures: from \
     published figures of P3's hardware, and from a trace that an emulated guest recorded under the \
     existing policy. The guest's parameters are those of its emulator, which is slow; they are \
     also applied to P3's number of CPUs, with as many flows for each CPU.";

const PER_WAKE: &str = "A migration in N puts a task back on a CPU where it ran at most N wake-ups \
     before; a swap does so after one wake-up, on the CPU that wakes the task. The price of P3's \
     policy is the time until a woken task runs.";

/// The simulations of the tables: each set on its own machine, and on one with P3's CPUs.
pub(super) fn models() -> Vec<(ParameterSet, Model)> {
    let held_out = ParameterSet::all().filter(|set| *set != ParameterSet::Fitted);
    let mut models: Vec<_> = held_out.map(|set| (set, set.model())).collect();
    models.push((ParameterSet::Guest, on_p3s_cpus(ParameterSet::Guest.model())));
    models
}

fn on_p3s_cpus(model: Model) -> Model {
    let cpus = Model::default().cpus;
    Model { cpus, flows: model.flows * u32::from(cpus) / u32::from(model.cpus), ..model }
}

/// A simulation with its name in the tables.
fn named() -> Vec<(String, ParameterSet, Model)> {
    let fitted = (ParameterSet::Fitted, ParameterSet::Fitted.model());
    let name = |(set, model): (ParameterSet, Model)| {
        (format!("{}, {} CPUs", set.name(), model.cpus), set, model)
    };
    models().into_iter().chain([fitted]).map(name).collect()
}

pub(super) fn section(results: &Results) -> Option<Section> {
    let own = results.of(NAME);
    let has_any = models().iter().any(|(set, model)| !of(&own, *set, model).is_empty());
    let parts = || {
        vec![
            Part::Text(TEXT.into()),
            Part::Table(figures(&own)),
            Part::Text(PER_WAKE.into()),
            Part::Table(per_wake(&own)),
        ]
    };
    has_any.then(|| Section::Titled("P3, simulated: parameters of other origin".into(), parts()))
}

/// The points of a simulation.
fn of<'a>(own: &Points<'a>, set: ParameterSet, model: &Model) -> Points<'a> {
    let params = params(set, model);
    own.filter(|point| {
        let own = point.params.iter().filter(|(key, _)| *key != "stat");
        own.eq(params.iter())
    })
}

/// Value of `stat` in a simulation.
fn value(points: &Points<'_>, method: &str, stat: &str) -> Option<f64> {
    points.method(method).with("stat", stat).median()
}

/// P3's five figures in each simulation.
fn figures(own: &Points<'_>) -> DataTable {
    let rows = [
        ("unintended, of migrations", "existing", "unintended"),
        ("wake-ups until settled, mean", "existing", "settle-mean"),
        ("wake-ups until settled, most", "existing", "settle-max"),
        ("migrations per second under existing", "existing", "migrations"),
        ("migrations, of those under existing", "follow", "migrations"),
    ];
    let named = named();
    let heads = named.iter().map(|(name, ..)| name.as_str()).chain(["published"]);
    let row = |(name, method, stat): (&str, &str, &str)| {
        let here = |(_, set, model): &(String, ParameterSet, Model)| {
            let points = of(own, *set, model);
            let found = value(&points, method, stat);
            let base =
                if method == "follow" { value(&points, "existing", stat) } else { Some(1.0) };
            let found = found.zip(base).map(|(found, base)| found / base);
            Cell::some(found.filter(|found| found.is_finite()).map(format::number))
        };
        let published = Cell::some(published::value(method, stat).map(format::number));
        let cells = [Cell::from(name)].into_iter().chain(named.iter().map(here));
        cells.chain([published]).collect()
    };
    let title = "P3's figures, held out from all sets but fitted";
    DataTable::new(title, ["figure"], heads).captioned().with_rows(rows.map(row))
}

/// Migrations of each simulation for each 1,000 wake-ups, and latencies.
fn per_wake(own: &Points<'_>) -> DataTable {
    let spans = SPANS.map(|span| (format!("back in {span}"), back(span)));
    let counts = ["migrations", "swaps"].map(|stat| (stat.to_owned(), stat.to_owned()));
    let counts: Vec<_> = counts.into_iter().chain(spans).collect();
    let heads = counts.iter().map(|(head, _)| head.as_str()).chain(["p50, ns", "p99, ns"]);
    let row = |(name, set, model): &(String, ParameterSet, Model), method: &str| {
        let points = of(own, *set, model);
        let wakes = value(&points, method, "wakes").filter(|wakes| *wakes > 0.0);
        let per_wake = |stat| Some(value(&points, method, stat)? * 1000.0 / wakes?);
        let counts = counts.iter().map(|(_, stat)| per_wake(stat));
        let latencies = ["p50", "p99"].map(|stat| value(&points, method, stat));
        let numbers = counts.chain(latencies).map(|number| Cell::some(number.map(format::number)));
        [Cell::from(name.as_str()), method.into()].into_iter().chain(numbers).collect::<Vec<_>>()
    };
    let named = named();
    let rows = named.iter().flat_map(|one| ["existing", "follow"].map(|method| row(one, method)));
    let title = "For each 1,000 wake-ups, with the latency of a wake-up";
    DataTable::new(title, ["parameters", "policy"], heads).captioned().with_rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Reading, Unit};
    use crate::testing::{page, points};

    #[test]
    fn p3s_figures_stand_beside_those_of_each_set() {
        let mut all = Vec::new();
        for (set, model) in models() {
            for (method, migrations) in [("existing", 300.0), ("follow", 150.0)] {
                let readings = [
                    Reading::stat(Unit::PerSecond, "wakes", 1000.0),
                    Reading::stat(Unit::PerSecond, "migrations", migrations),
                    Reading::stat(Unit::PerSecond, "back-4", 12.5),
                    Reading::stat(Unit::Nanoseconds, "p99", 9000.0),
                ];
                all.extend(points(NAME, method, &params(set, &model), &readings));
            }
        }
        let html = page(all);
        let row = |cells: &[&str]| format!("<td>{}</td></tr>", cells.join("</td><td>"));
        let none = "\u{2013}";
        let left = row(&["0.500", "0.500", "0.500", none, "0.519"]);
        assert!(html.contains(&format!("migrations, of those under existing</th>{left}")));
        let follow = row(&["150", none, none, none, "12.5", none, none, "9,000"]);
        for set in ["hardware, 12 CPUs", "guest, 4 CPUs", "guest, 12 CPUs"] {
            let follow = format!(r#"{set}</th><td class="text">follow</td>{follow}"#);
            assert!(html.contains(&follow), "{set}");
        }
        assert!(!page(Vec::new()).contains("parameters of other origin"));
    }
}
