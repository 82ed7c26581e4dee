//! The example `salesman`, and the rank of the lab.

use std::env;

use crate::launch::{end_of, launcher};

#[test]
fn the_salesman_of_several_ranks_finds_the_shortest_tour() {
    for ranks in ["1", "3"] {
        let mut launcher = match launcher() {
            Ok(launcher) => launcher,
            Err(reason) => {
                let name = "the_salesman_of_several_ranks_finds_the_shortest_tour";
                return println!("skipped: example::{name}: {reason}");
            }
        };
        // Beside the folder of this test; cargo builds examples before it runs tests.
        let own = env::current_exe().unwrap();
        let program = own.parent().unwrap().with_file_name("examples").join("salesman");
        launcher.args(["-n", ranks]).arg(program).arg("9");
        let launched = end_of(launcher);
        assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
        let line = format!("9 cities, {ranks} ranks: the shortest tour is ");
        assert!(launched.output.contains(&line), "{}", launched.output);
    }
}

#[test]
fn the_rank_of_the_lab_counts_each_answer() {
    for preset in ["latency", "balanced"] {
        let mut launcher = match launcher() {
            Ok(launcher) => launcher,
            Err(reason) => {
                let name = "the_rank_of_the_lab_counts_each_answer";
                return println!("skipped: example::{name}: {reason}");
            }
        };
        launcher.args(["-n", "2", env!("CARGO_BIN_EXE_daiko-lab-mpi")]);
        launcher.args([preset, "70", "16", "20"]);
        let launched = end_of(launcher);
        assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
        let numbers = launched.output.split_whitespace().map_while(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        assert_eq!(numbers[1], 20 * (1..=70).sum::<u64>(), "{}", launched.output);
    }
}
