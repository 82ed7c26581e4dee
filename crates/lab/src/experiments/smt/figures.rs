//! P4's figures 2, 3, 5 and 6 as measured here, and whether they agree with P4.

use super::quiet::THRESHOLD;
use crate::kit::p4::comparison::{Comparison, DISTURBED, RBTREE, comparisons};
use crate::kit::p4::figures::{self, FigureKind, KINDS, TEXT, bar, bars, family, named};
use crate::kit::p4::published::MACHINE;
use crate::kit::{
    BarGroup, Choice, Curve, CurveLine, Drawing, Family, Mark, Results, Section, Spread, distinct,
};

/// The name of the experiment.
pub(super) const NAME: &str = "smt";

/// Value of `stat` for the duration of the core probe, the best of a sample.
pub(super) const LOOK: &str = "look";

/// Figures of set 1: IO task, CPU task, and a file name for each of [`KINDS`].
const PANELS: [(&str, &str, [&str; 2]); 6] = [
    ("pmem", "idiv", ["smt-time-pmem-idiv.svg", "smt-io-pmem-idiv.svg"]),
    ("pmem", "product", ["smt-time-pmem-product.svg", "smt-io-pmem-product.svg"]),
    ("pmem", "sum", ["smt-time-pmem-sum.svg", "smt-io-pmem-sum.svg"]),
    ("dram", "idiv", ["smt-time-dram-idiv.svg", "smt-io-dram-idiv.svg"]),
    ("dram", "product", ["smt-time-dram-product.svg", "smt-io-dram-product.svg"]),
    ("dram", "sum", ["smt-time-dram-sum.svg", "smt-io-dram-sum.svg"]),
];
const SET2_FILES: [&str; 2] = ["smt-time-programs.svg", "smt-io-programs.svg"];
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let measured = comparisons(results, NAME);
    let host = &results.host;
    let control = format!(
        "{} Prefetchers here: {}. Frequency here: {}. P4: {MACHINE}.",
        disturbed(results),
        host.prefetchers,
        host.frequency
    );
    let found = figures::section(&measured, "P4, found again or not", &control);
    let of_kind = |(index, kind): (usize, &FigureKind)| {
        let own: Vec<&Comparison> = measured.iter().filter(|one| one.stat == kind.stat).collect();
        let panel = |(io, cpu, files): (&str, &str, [&'static str; 2])| {
            panel(files[index], &own, kind, io, cpu)
        };
        let panels = PANELS.into_iter().filter_map(panel);
        panels.chain(programs(SET2_FILES[index], &own, kind)).collect::<Vec<_>>()
    };
    let drawings = KINDS.iter().enumerate().flat_map(of_kind).map(Section::Drawing);
    found.into_iter().chain(drawings).collect()
}

/// Draws set 1: a line over the size for each setting, and P4's values from end to end.
fn panel(
    file: &'static str,
    own: &[&Comparison],
    kind: &FigureKind,
    io: &str,
    cpu: &str,
) -> Option<Drawing> {
    let own: Vec<&&Comparison> =
        own.iter().filter(|one| (one.io.as_str(), one.cpu.as_str()) == (io, cpu)).collect();
    let sizes = || own.iter().filter_map(|one| one.size).map(|size| size as f64);
    let ends = [sizes().min_by(f64::total_cmp)?, sizes().max_by(f64::total_cmp)?];
    let level = |name: &str, family, value| CurveLine::level(name, family, value, name, ends);
    let mut lines = vec![level("cross", Family::Ours, Spread::exactly(1.0))];
    for setting in distinct(own.iter().map(|one| one.setting)) {
        let of_setting = || own.iter().filter(|one| one.setting == setting);
        let (name, marks) = (setting.name(), of_setting().filter_map(|one| mark(one)).collect());
        lines.push(CurveLine { name: name.into(), family: family(setting), marks });
        if let Some(published) = of_setting().next().and_then(|one| one.published) {
            lines.push(level(&format!("P4: {name}"), Family::Published, published));
        }
    }
    let (number, memory) = (kind.numbers[0], named(own[0]));
    let title = format!("P4, figure {number}: {}, {memory} beside {cpu}", kind.title);
    let size = if cpu == "idiv" { "divisions" } else { "side of the matrices" };
    let curve = Curve { linear_y: true, ..Curve::new(title.as_str(), [size, kind.axis], lines) };
    // Colours do not denote families here: lines bear their names.
    Some(Drawing { has_legend: false, ..curve.drawn(file, title, TEXT)? })
}

fn mark(one: &Comparison) -> Option<Mark> {
    let size = one.size?;
    let means = format!("size {size}{}", disturbance(one));
    Some(Mark { x: size as f64, y: one.here, means })
}

/// Suffix of the name of a point that stayed disturbed.
fn disturbance(one: &Comparison) -> &'static str {
    if one.is_disturbed { ", disturbed" } else { "" }
}

/// Draws set 2: bars of all settings beside each program, and P4's range over all of SPEC CPU.
fn programs(file: &'static str, own: &[&Comparison], kind: &FigureKind) -> Option<Drawing> {
    let own: Vec<&&Comparison> = own.iter().filter(|one| one.io == RBTREE).collect();
    let first = own.first()?;
    let name = |one: &Comparison| format!("{}{}", one.setting.name(), disturbance(one));
    let group = |cpu: &str| {
        let beside = own.iter().filter(|one| one.cpu == cpu);
        let bars = beside.map(|one| bar(name(one), family(one.setting), one.here)).collect();
        BarGroup { name: cpu.into(), bars }
    };
    let mut groups: Vec<BarGroup> =
        distinct(own.iter().map(|one| one.cpu.as_str())).into_iter().map(group).collect();
    let published = own.iter().find_map(|one| Some((one.setting, one.published?)));
    groups.extend(published.map(|(setting, value)| BarGroup {
        name: "SPEC CPU 2017, published: from the least benchmark to the most".into(),
        bars: vec![bar(setting.name().into(), Family::Published, value)],
    }));
    let (number, memory) = (kind.numbers[1], named(first));
    let title = format!("P4, figure {number}: {}, {memory} beside programs", kind.title);
    Some(bars(file, title, TEXT.into(), kind, groups))
}

/// Sentence about the number of disturbed points, as far as disturbances were detected.
fn disturbed(results: &Results) -> String {
    let own = results.of(NAME);
    let ever = |stat: &str| own.with("stat", stat).iter().filter(|point| point.max > 0.0).count();
    let looks = own.with("stat", LOOK);
    let best = looks.iter().map(|point| point.min).fold(f64::INFINITY, f64::min);
    let slow = looks.iter().filter(|point| point.max > best * THRESHOLD).count();
    format!(
        "Of {} points, {} have samples that were disturbed and taken again, {} have samples that stayed disturbed, {slow} have samples in \
         which the cores were slow all the time.",
        looks.iter().count(),
        ever("repeats"),
        ever(DISTURBED)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::p4::published::{self, CPU_TIME, IO_THROUGHPUT};
    use crate::kit::p4::setting::Setting;
    use crate::kit::{Params, Point, Reading, Unit};
    use crate::report::{drawings, html};
    use crate::testing;

    /// Values relative to cross: for parallel, and for all settings without SMT.
    type Ratios = [f64; 2];

    /// Points of all settings with one pair of tasks. Their runs differ by 2%.
    fn points(params: &Params, time: Ratios, throughput: Ratios) -> Vec<Point> {
        let ratio = |setting, [parallel, nosmt]: Ratios| match setting {
            Setting::Cross => 1.0,
            Setting::Parallel => parallel,
            _ => nosmt,
        };
        let of_setting = |setting: Setting| {
            let readings = [
                Reading::stat(Unit::Nanoseconds, CPU_TIME, 1e8 * ratio(setting, time)),
                Reading::stat(Unit::PerSecond, IO_THROUGHPUT, 1e6 * ratio(setting, throughput)),
                Reading::stat(Unit::Count, "repeats", f64::from(setting == Setting::Parallel)),
                Reading::stat(Unit::Count, DISTURBED, 0.0),
                Reading::stat(
                    Unit::Nanoseconds,
                    LOOK,
                    1e5 * if setting == Setting::NoSmt { 1.1 } else { 1.0 },
                ),
            ];
            let mut points = testing::points(NAME, setting.name(), params, &readings);
            for point in &mut points {
                (point.min, point.max) = (0.99 * point.median, 1.01 * point.median);
            }
            points
        };
        Setting::all().flat_map(of_setting).collect()
    }

    fn set1(io: &str, memory: &str, cpu: &str, size: u64) -> Params {
        let params = Params::new().with("io", io).with("cpu", cpu).with("memory", memory);
        params.with("region-mib", 1024u64).with("size", size)
    }

    /// P4's results, except for products beside DRAM, where cross is worse here.
    fn measured() -> Results {
        let mut all = Vec::new();
        for (io, memory, throughput) in
            [("pmem", "emulated", [0.93, 0.5]), ("dram", "dram", [0.8, 0.67])]
        {
            let times = match io {
                "pmem" => [[1.15, 1.7], [1.15, 1.15], [1.0, 1.27]],
                _ => [[0.95, 1.44], [0.9, 1.07], [0.92, 1.14]],
            };
            for (cpu, time) in ["idiv", "product", "sum"].into_iter().zip(times) {
                all.extend(points(&set1(io, memory, cpu, 256), [0.5, 0.5], throughput));
                all.extend(points(&set1(io, memory, cpu, 512), time, throughput));
            }
        }
        for cpu in ["gzip", "xz"] {
            let params = Params::new().with("io", "rbtree").with("cpu", cpu);
            let params = params.with("memory", "emulated");
            all.extend(points(&params, [1.2, 1.5], [0.9, 0.6]));
        }
        results(all)
    }

    fn results(all: Vec<Point>) -> Results {
        let published = published::points(NAME).into_iter().filter(|_| !all.is_empty());
        testing::results(all.iter().cloned().chain(published).collect())
    }

    #[test]
    fn every_figure_of_p4_has_a_drawing() {
        let names: Vec<&str> = drawings(&measured()).into_iter().map(|(name, _)| name).collect();
        let panels = |index: usize| PANELS.iter().map(move |(_, _, files)| files[index]);
        let expected: Vec<&str> =
            (0..2).flat_map(|index| panels(index).chain([SET2_FILES[index]])).collect();
        assert_eq!(names, expected);
        assert!(drawings(&results(vec![])).is_empty());
    }

    #[test]
    fn pages_and_drawings_are_well_formed_and_labelled() {
        let page = html(&measured());
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&page, options).expect("well-formed");
        for (name, svg) in drawings(&measured()) {
            let document = roxmltree::Document::parse(&svg).expect(name);
            let label = document.root_element().attribute("aria-label").expect("a label");
            assert_eq!(label.contains("emulated"), !name.contains("dram"), "{name}: {label}");
        }
    }

    #[test]
    fn lines_are_ratios_to_cross_over_the_size_beside_those_of_p4() {
        let all = drawings(&measured());
        let (_, svg) = all.iter().find(|(name, _)| *name == "smt-time-pmem-idiv.svg").expect("it");
        for title in [
            "parallel, size 512: 1.15 (1.13 to 1.17)",
            "parallel, size 256: 0.500 (",
            "nosmt, size 512: 1.70 (",
            "P4: parallel, P4: parallel: 1.15",
            "P4: nosmt-2t-cross, P4: nosmt-2t-cross: 1.70",
            "cross, cross: 1.00",
        ] {
            assert!(svg.contains(&format!("<title>{title}")), "{title}");
        }
    }

    #[test]
    fn programs_and_the_published_range_have_a_group_each() {
        let all = drawings(&measured());
        let (_, svg) = all.iter().find(|(name, _)| *name == SET2_FILES[1]).expect("it");
        let heads =
            ["gzip", "xz", "SPEC CPU 2017, published: from the least benchmark to the most"];
        let heads = heads.map(|head| svg.find(&format!(">{head}</text>")).expect(head));
        assert!(heads.is_sorted(), "{heads:?}");
        assert_eq!(svg.matches("<rect ").count(), 2 * 4 + 1);
    }

    /// Beside products in DRAM, P4 has 1.07 for parallel, and it is 0.9 here. Beside divisions both
    /// are below 1.
    #[test]
    fn signs_agree_or_not_where_the_largest_size_says_so() {
        let page = html(&measured());
        let row = |tasks: &str, stat: &str, setting: &str| {
            let start = format!(
                r#"<tr><th scope="row">{tasks}</th><td class="text">{stat}</td><td class="text">{setting}</td>"#
            );
            let at = page.find(&start).unwrap_or_else(|| panic!("{start}"));
            let row = page[at..].split("</tr>").next().expect("a row");
            let cells = row.rsplit("<td>").take(3).map(|cell| cell.trim_end_matches("</td>"));
            cells.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(" ")
        };
        let parallel = |tasks, stat| row(tasks, stat, "parallel");
        assert_eq!(parallel("dram beside product 512", CPU_TIME), "worse better disagrees");
        assert_eq!(parallel("dram beside idiv 512", CPU_TIME), "worse worse agrees");
        assert_eq!(parallel("pmem (emulated) beside sum 512", CPU_TIME), "equal equal agrees");
        assert_eq!(parallel("rbtree (emulated) beside xz", IO_THROUGHPUT), "better better agrees");
        assert_eq!(row("dram beside sum 512", CPU_TIME, "nosmt"), "better better agrees (deduced)");
        // Set 1 has 18 times, 6 of them with nosmt, and 12 throughputs. The two programs have two
        // of each.
        assert!(page.contains("Of 28 figures of P4, 27 have the same sign here"));
        assert!(
            page.contains("Of 6 run times with nosmt, from which its work is deduced, 6 have.")
        );
    }

    /// One sample of parallel stayed disturbed: its time and its throughput are left out of the
    /// cases.
    #[test]
    fn points_that_stayed_disturbed_are_marked_and_left_out() {
        let mut all = points(&set1("pmem", "dax", "idiv", 512), [1.15, 1.7], [0.93, 0.5]);
        let disturbed = |point: &&mut Point| {
            point.method == "parallel" && point.params.text("stat") == Some(DISTURBED)
        };
        all.iter_mut().find(disturbed).expect("it").max = 1.0;
        let results = results(all);
        let page = html(&results);
        assert_eq!(page.matches("<td>disturbed</td>").count(), 2);
        for words in [
            "Of 3 figures of P4, 3 have",
            "Of 1 run times with nosmt, from which its work is deduced, 1 have.",
            "2 are left out",
            "1 have samples that stayed disturbed",
            "than nosmt beside every CPU task: not measured",
        ] {
            assert!(page.contains(words), "{words}");
        }
        let (_, svg) = drawings(&results).into_iter().next().expect("a drawing");
        assert!(svg.contains("<title>parallel, size 512, disturbed: 1.15"), "{svg}");
    }

    #[test]
    fn conclusions_disturbances_and_controls_are_reported() {
        let page = html(&measured());
        for words in [
            "where to DRAM: holds in 3 of 3 cases",
            "more than sums: holds in 3 of 4 cases",
            "measured, beside every CPU task: holds in 8 of 8 cases",
            "Of 70 points, 14 have samples that were disturbed and taken again, 0 have samples that stayed disturbed, 14 have samples in",
            "Prefetchers here: ",
        ] {
            assert!(page.contains(words), "{words}");
        }
        let few = results(points(&set1("pmem", "dax", "idiv", 9), [1.1, 1.5], [0.9, 0.5]));
        assert!(html(&few).contains("where to DRAM: not measured"));
        assert!(!html(&results(vec![])).contains("P4, found again"));
    }
}
