//! The classifier of `daiko pair`: what it says of programs whose class is known.

use super::{Page, svg::Escaped};
use crate::{
    experiments::smt_classes::{CLASSES, HALVES, NAME, SAMPLING},
    kit::results::{Point, Results},
    report::table::distinct,
};

/// What stands before the tables.
const TEXT: &str = "What daiko pair says of programs whose class is known, by samples of where they are (P4). Programs in rows by what \
     they are, in columns by what most looks at them say. Thresholds were chosen by the training half; the programs of \
     looked were a test until the first verdict (20 of 23 right) said what to improve; test is for the verdict only. \
     P4's own tasks are libpmem-memmove and same-writes-dram, which stall, and idiv, matrix-product and matrix-sum, which compute.";

/// A program, and what was said of it.
struct Judged<'a> {
    program: &'a str,
    half: &'a str,
    label: &'a str,
    is_trap: bool,
    /// What most looks say.
    said: Option<&'static str>,
    /// Whether all looks agree.
    agree: bool,
}

impl<'a> Judged<'a> {
    /// Of those points that are about this program.
    fn of(program: &'a str, points: &[&'a Point]) -> Option<Self> {
        let about = || points.iter().filter(|point| point.params.text("program") == Some(program));
        let params = &about().next()?.params;
        let stat = |name: &str| {
            let stat = format!("said-{name}");
            about().find(|point| point.params.text("stat") == Some(&stat)).copied()
        };
        let said = CLASSES.iter().map(|(_, name)| *name);
        let mut most =
            said.clone().filter(|name| stat(name).is_some_and(|point| point.median > 0.5));
        Some(Self {
            program,
            half: params.text("half")?,
            label: params.text("label")?,
            is_trap: params.text("trap") == Some("yes"),
            said: most.next(),
            agree: said.clone().all(|name| stat(name).is_none_or(|point| point.min == point.max)),
        })
    }

    fn is_right(&self) -> bool {
        self.said == Some(self.label)
    }
}

fn judged(results: &Results) -> Vec<Judged<'_>> {
    let is_one = |point: &&Point| point.experiment == NAME && point.method == SAMPLING;
    let points: Vec<&Point> = results.measured().filter(is_one).collect();
    let programs = distinct(points.iter().filter_map(|point| point.params.text("program")));
    programs.into_iter().filter_map(|program| Judged::of(program, &points)).collect()
}

impl Page {
    /// A table for each half.
    pub(super) fn smt_classes(&mut self, results: &Results) {
        let judged = judged(results);
        if judged.is_empty() {
            return;
        }
        self.add(format_args!("<section><h2>What stalls and what computes</h2><p>{TEXT}</p>"));
        for half in HALVES {
            let of_half: Vec<&Judged<'_>> = judged.iter().filter(|one| one.half == half).collect();
            if !of_half.is_empty() {
                self.confusion(half, &of_half);
            }
        }
        self.0.push_str("</section>");
    }

    fn confusion(&mut self, half: &str, judged: &[&Judged<'_>]) {
        let right = |judged: &[&Judged<'_>]| judged.iter().filter(|one| one.is_right()).count();
        let traps: Vec<&Judged<'_>> = judged.iter().copied().filter(|one| one.is_trap).collect();
        let title = format!(
            "{half}: {} of {} right, of traps {} of {}",
            right(judged),
            judged.len(),
            right(&traps),
            traps.len()
        );
        self.open_scroll(&title);
        self.add(format_args!("<table><caption>{}</caption><thead><tr>", Escaped(&title)));
        self.0.push_str(r#"<th class="text" scope="col">is</th>"#);
        for (_, name) in CLASSES {
            self.add(format_args!(r#"<th scope="col">said {name}</th>"#));
        }
        self.0.push_str("</tr></thead><tbody>");
        for (_, label) in CLASSES {
            self.add(format_args!(r#"<tr><th scope="row">{label}</th>"#));
            for (_, said) in CLASSES {
                let is_it = |one: &&&Judged<'_>| one.label == label && one.said == Some(said);
                self.add(format_args!("<td>{}</td>", judged.iter().filter(is_it).count()));
            }
            self.0.push_str("</tr>");
        }
        self.0.push_str("</tbody></table></div>");
        self.exceptions(judged);
    }

    fn exceptions(&mut self, judged: &[&Judged<'_>]) {
        let list = |is: &dyn Fn(&Judged<'_>) -> bool| {
            let names: Vec<&str> =
                judged.iter().filter(|one| is(one)).map(|one| one.program).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let (wrong, wavering) = (list(&|one| !one.is_right()), list(&|one| !one.agree));
        self.add(format_args!(
            r#"<p class="hint">Wrong: {}. Looks do not all agree: {}.</p>"#,
            Escaped(&wrong),
            Escaped(&wavering)
        ));
    }
}
