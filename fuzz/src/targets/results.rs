//! `results.json`: it survives a round trip, and any contents make a report.

use daiko_lab::{
    kit::{
        host::Host,
        results::{Results, SCHEMA},
    },
    report::{self, compare, table},
};
use roxmltree::{Document, ParsingOptions};

/// The input is the file.
pub(super) fn fuzz(data: &[u8]) {
    if let Ok(results) = serde_json::from_slice(data) {
        check(&results);
    }
    match Results::parse(data) {
        Ok(results) => assert_eq!(results.schema, SCHEMA),
        Err(told) => assert_eq!(told.trim_end().lines().count(), 1, "{told:?}"),
    }
}

/// Builds all outputs from the results.
pub(super) fn check(results: &Results) {
    let text = serde_json::to_vec(results).expect("JSON");
    let again: Results = serde_json::from_slice(&text).expect("the same JSON");
    assert_eq!(&again, results);

    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let html = report::html(results);
    Document::parse_with_options(&html, options).expect("a well-formed report");
    for (name, drawing) in report::drawings(results) {
        Document::parse(&drawing).expect(name);
    }
    let tables: String = table::tables(results).iter().map(ToString::to_string).collect();
    assert!(!tables.contains("NaN"), "{tables}");
    let _ = report::conclusion(results);
    let compared = compare::compare(results, results);
    assert!(compared.notes.iter().all(|note| !note.starts_with("the machines differ")));
    assert!(!compared.to_string().contains("NaN"), "{compared}");
}

/// A constant host.
pub(super) fn host() -> Host {
    Host {
        cpu: "a processor".into(),
        cpus: 2,
        quota: None,
        kernel: "6.18".into(),
        glibc: "2.36".into(),
        governor: None,
        frequency: "unknown".into(),
        prefetchers: "unknown".into(),
        huge_pages: None,
        load: None,
        conditions: None,
        date: "2026-01-01T00:00:00Z".into(),
        daiko: "0.1.0".into(),
        optimised: true,
    }
}
