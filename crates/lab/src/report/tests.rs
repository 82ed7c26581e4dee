use super::*;
use crate::kit::results::PointSample;
use crate::kit::{Conditions, Missing, Point};
use crate::testing::made_up::full;
use crate::testing::{self};

#[test]
fn the_curves_stand_alone() {
    let drawings = drawings(&full());
    assert_eq!(
        drawings.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        [
            "ring.svg",
            "governor.svg",
            "governor-p99.svg",
            "tsp.svg",
            "ipc.svg",
            "serve.svg",
            "serve-pipeline.svg",
            "serve-latency.svg",
            "apps-throughput.svg",
            "apps-cpu.svg",
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
    let html = html(&full());
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&html, options).expect("well-formed");
    let drawings: Vec<_> =
        document.descendants().filter(|node| node.tag_name().name() == "svg").collect();
    // There are 20 drawings, each for two widths: the ring curve, five figures of P1, two governor
    // curves, two of P5, the salesman, the processes, three of servers, two of applications, three
    // of simulated wake-ups.
    assert_eq!(drawings.len(), 40);
    for drawing in drawings {
        assert!(drawing.attribute("aria-label").is_some_and(|label| !label.is_empty()));
    }
    for text in html.split('"').chain(html.split(' ')) {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
}

fn drawing(name: &str) -> String {
    let drawing = drawings(&full()).into_iter().find(|(found, _)| *found == name);
    drawing.expect(name).1
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
fn each_mechanism_of_the_kernel_has_a_colour_of_its_own() {
    let drawing = drawing("ring.svg");
    let document = roxmltree::Document::parse(&drawing).unwrap();
    let lines = document.descendants().filter(|node| {
        node.attribute("class").is_some_and(|class| class.starts_with("line kernel"))
    });
    let colours: Vec<_> = lines.map(|line| line.attribute("stroke").expect("a colour")).collect();
    let distinct: std::collections::BTreeSet<_> = colours.iter().collect();
    assert!(colours.len() >= 3 && distinct.len() == colours.len(), "{colours:?}");
}

#[test]
fn clients_are_columns() {
    let html = html(&full());
    assert!(html.contains(r#"<th scope="col">clients 16</th>"#), "no such column");
    assert!(html.contains("<caption>ipc: 1/s, bytes=8, stat=throughput</caption>"));
}

#[test]
fn counts_have_a_table_of_their_own() {
    let html = html(&full());
    assert!(html.contains("<caption>tsp: count, stat=nodes</caption>"), "no such table");
}

#[test]
fn the_legend_describes_each_measured_method() {
    let html = html(&full());
    let row = r#"<tr><th scope="row">rtsignal</th><td class="text wrap">real-time signals"#;
    assert_eq!(html.matches(row).count(), 1);
    assert!(
        !html.contains(r#"<th scope="row">argobots</th><td class="text wrap">"#),
        "not measured"
    );
}

#[test]
fn the_page_needs_no_network() {
    let html = html(&full());
    for fetched in ["src=", "href=", "@import", "url("] {
        assert!(!html.contains(fetched), "{fetched}");
    }
}

#[test]
fn a_missing_case_is_counted_with_its_reason() {
    let missing = |method: &str, reason: &str| Missing {
        experiment: "ring".into(),
        method: method.into(),
        params: crate::kit::Params::new(),
        reason: reason.into(),
    };
    let html = html(&Results {
        skipped: vec![missing("go", "go <not> installed & so on"); 3],
        failed: vec![missing("futex", "hung")],
        interrupted: true,
        ..full()
    });
    assert!(html.contains("Left out: 3 points"));
    assert!(html.contains("go &lt;not&gt; installed &amp; so on"));
    assert!(html.contains("Failed: 1 points"));
    assert!(html.contains("Stopped before its end"));
}

#[test]
fn a_disturbed_value_is_marked_in_headline_table_and_picture() {
    let mut results = full();
    let is_ours = |point: &&mut Point| {
        point.method == "daiko" && point.params.number("threads") == Some(1000)
    };
    let point = results.points.iter_mut().find(is_ours).expect("a point");
    let conditions = Conditions { others: 0.5, ..Conditions::default() };
    point.samples = vec![PointSample { value: point.median, conditions }];
    results.host.load = Some(50.0);
    results.host.conditions = Some(conditions);
    let page = html(&results);
    for sign in [
        "Disturbed: 1 of 1 values, a load of 50.00 at the start, 50% of the CPUs' time used",
        "; the machine was disturbed: 1 of 1 values",
        "; the machine was disturbed</title>",
        " !<small>",
        r#"class="mark ours disturbed""#,
    ] {
        assert!(page.contains(sign), "no {sign}");
    }
    let undisturbed = html(&full());
    assert!(!undisturbed.contains("; the machine was disturbed") && !undisturbed.contains(" !<"));
}

#[test]
fn an_empty_run_is_a_page_too() {
    let html = testing::page(vec![]);
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(&html, options).expect("well-formed");
    assert!(!html.contains("<svg"));
}

#[test]
fn a_viewer_without_variables_sees_all_colours() {
    for (name, svg) in drawings(&full()) {
        let document = roxmltree::Document::parse(&svg).expect(name);
        for node in document.descendants() {
            let colours = ["fill", "stroke"].map(|key| node.attribute(key));
            let has_colour = colours.iter().flatten().any(|colour| colour.starts_with('#'));
            let is_drawn = ["line", "path", "rect", "text"].contains(&node.tag_name().name());
            assert!(!is_drawn || has_colour, "{name}: {node:?}");
        }
    }
}

#[test]
fn the_colours_of_attributes_are_those_of_the_light_style() {
    let kernel = (0..svg::KERNEL_COLOURS).map(|index| format!("kernel-{index}"));
    for class in ["ours", "peer", "kernel", "limit"].map(String::from).into_iter().chain(kernel) {
        let class = class.as_str();
        assert!(STYLE.contains(&format!("--{class}: {};", svg::ink(class))), "{class}");
    }
    assert_eq!(svg::ink("leader peer"), svg::ink("peer"));
    let soft = format!("--soft: {};", svg::ink("tick"));
    assert!(STYLE.contains(&soft), "{soft}");
}
