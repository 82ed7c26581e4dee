//! Properties of every row of the table.

use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::kit::Options;
use crate::kit::experiment::is_ours;
use crate::{report, testing};

/// No command finds an experiment with a folder but without a row.
#[test]
fn every_folder_has_a_row_of_its_name() {
    let folders = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/experiments"));
    let folders = folders.expect("the sources").map(|entry| entry.expect("an entry"));
    let folders = folders.filter(|entry| entry.file_type().expect("a type").is_dir());
    let folders: BTreeSet<String> =
        folders.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    let rows: BTreeSet<String> = ALL.iter().map(|row| row.name.replace('-', "_")).collect();
    assert_eq!(folders, rows);
    assert_eq!(rows.len(), ALL.len(), "two rows have one name");
}

#[test]
fn every_row_has_a_summary_and_names_each_method_once() {
    for row in ALL {
        assert!(!row.about.is_empty(), "{}", row.name);
        let methods = (row.methods)();
        let distinct: BTreeSet<_> = methods.iter().collect();
        assert!(!methods.is_empty() && distinct.len() == methods.len(), "{}", row.name);
    }
}

#[test]
fn every_case_is_planned_once_and_can_be_measured() {
    for row in ALL {
        for quick in [false, true] {
            let plan = row.plan(&Options { quick, ..Options::default() });
            let names: BTreeSet<String> = plan.iter().map(|one| one.case.to_string()).collect();
            assert!(!plan.is_empty() && names.len() == plan.len(), "{}", row.name);
            let methods = (row.methods)();
            for case in plan.iter().map(|planned| &planned.case) {
                assert_eq!(case.experiment, row.name);
                assert!(methods.contains(&case.method.as_str()), "{case}");
                assert!((row.measure)(&case.method, &case.params).is_some(), "{case}");
            }
        }
    }
}

/// An interrupted run has the methods that come first.
#[test]
fn methods_of_daiko_come_first() {
    for row in ALL {
        let plan = row.plan(&Options::default());
        let ours: Vec<bool> = plan.iter().map(|one| is_ours(&one.case.method)).collect();
        let known = (row.methods)().into_iter().any(is_ours);
        assert_eq!(ours[0], known, "{}", row.name);
        assert!(ours.is_sorted_by(|one, next| one >= next), "{}", row.name);
    }
}

#[test]
fn a_case_of_no_method_is_told() {
    let effort = crate::kit::Effort { rounds: 1, limit: std::time::Duration::ZERO };
    for row in ALL {
        let mut case = row.plan(&Options::default()).remove(0).case;
        case.method = "nonsense".into();
        let told = row.sample(&case, effort).expect_err("no such method").to_string();
        assert_eq!(told, format!("{case}: there is no such point"));
    }
}

#[test]
fn published_figures_are_of_the_experiment_and_name_their_paper() {
    for row in ALL {
        for point in (row.published)() {
            assert_eq!(point.experiment, row.name);
            assert!(point.source.is_some_and(|paper| paper.starts_with('P')), "{}", row.name);
            assert_eq!(point.runs, 0, "{}", row.name);
        }
    }
}

#[test]
fn without_points_there_are_no_sections() {
    let results = testing::results(vec![]);
    for row in ALL {
        assert!((row.sections)(&results).is_empty(), "{}", row.name);
    }
    assert_eq!(report::conclusion(&results), None);
}
