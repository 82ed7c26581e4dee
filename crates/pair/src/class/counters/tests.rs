use super::tables::tests::{by_folder, reading};
use super::*;
use proptest::prelude::*;
use std::fs::File;
use std::io::{Seek, Write};

const SECOND_NS: u64 = 1_000_000_000;

/// The constructed examples: folder, work, counts, class.
fn constructed() -> impl Iterator<Item = (&'static str, &'static str, Vec<u64>, &'static str)> {
    let lines = include_str!("constructed.txt").lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [folder, work, counts, class] = fields[..] else { panic!("four fields: {line}") };
        (folder, work, counts.split(' ').map(|count| count.parse().unwrap()).collect(), class)
    })
}

fn class_of(folder: &str, counts: &[u64]) -> Option<Class> {
    let bounds = by_folder(folder).bounds(&reading(counts)).unwrap();
    bounds.class(false).ok().map(|(class, _)| class)
}

#[test]
fn constructed_counts_lead_to_their_class() {
    for (folder, work, counts, class) in constructed() {
        let expected = match class {
            "stall" => Some(Class::Stall),
            "compute" => Some(Class::Compute),
            _ => None,
        };
        assert_eq!(class_of(folder, &counts), expected, "{work} on {folder}");
    }
    let folders: Vec<&str> = constructed().map(|(folder, ..)| folder).collect();
    for table in super::tables::tests::all() {
        assert!(folders.contains(&table.folder), "no example for {}", table.folder);
    }
}

#[test]
fn few_misses_are_computing_only_if_no_flushes_were_seen() {
    let counts = reading(&[1_000_000_000, 1_700_000_000, 90_000]);
    let bounds = by_folder("amdzen3").bounds(&counts).unwrap();
    assert!(bounds.class(false).unwrap_err().contains("do not show waits for flushes"));
    let (class, confidence) = bounds.class(true).unwrap();
    assert_eq!(class, Class::Compute);
    assert!(confidence <= 0.8, "less than by counted stalls: {confidence}");
}

#[test]
fn without_enough_counts_the_reason_is_told() {
    let table = by_folder("icelakex");
    let counts = [SECOND_NS, 10, 5, 0];
    let told = |wanted_ns, counted_ns, counts: &[u64]| {
        let reading = GroupReading { wanted_ns, counted_ns, counts: counts.to_vec() };
        table.bounds(&reading).unwrap_err()
    };
    assert!(told(0, 0, &[0; 4]).contains("sleeps"));
    assert!(told(SECOND_NS, 0, &[0; 4]).contains("use all counters"));
    assert!(told(SECOND_NS, SECOND_NS, &[0; 4]).contains("0 cycles"));
    assert!(told(SECOND_NS, SECOND_NS, &[3_999_999, 0, 0, 0]).contains("that are needed"));
    assert!(told(SECOND_NS, SECOND_NS, &counts[..3]).contains("contradict"), "one is missing");
    assert!(told(SECOND_NS, SECOND_NS, &[]).contains("no event"));
    assert!(told(SECOND_NS, SECOND_NS, &[SECOND_NS, 10, 500, 0]).contains("contradict"));
    assert!(told(SECOND_NS, SECOND_NS, &[SECOND_NS, 2 * SECOND_NS, 5, 0]).contains("contradict"));
}

/// A group with these readings, a second apart: `perf_event_open` is replaced.
fn recorded(readings: &[[u64; 4]]) -> Result<CounterGroup, CounterError> {
    let mut file = tempfile::tempfile().unwrap();
    for (ns, counts) in (0..).step_by(SECOND_NS as usize).zip(readings) {
        for word in [4, ns, ns].iter().chain(counts) {
            file.write_all(&word.to_ne_bytes()).unwrap();
        }
    }
    file.rewind().unwrap();
    let mut open = |_, _, _: Option<&File>| Ok(file.try_clone().unwrap());
    CounterGroup::open_by(&mut open, &[HardwareEvent::CYCLES; 4], 1)
}

const BEFORE: [u64; 4] = [500, 100, 90, 10];

fn finished(open: OpenGroup) -> Result<WaitBounds, String> {
    Counting::start(open, by_folder("skylakex"), 1)?.finish()
}

#[test]
fn the_difference_of_two_readings_is_judged() {
    let bounds =
        finished(|_, _| recorded(&[BEFORE, [SECOND_NS + 500, 900_000_100, 800_000_090, 10]]))
            .unwrap();
    assert_eq!((bounds.at_least, bounds.at_most), (0.8, 0.9));
    assert_eq!(bounds.class(false), Ok((Class::Stall, bounds.surest)));
    assert_eq!(bounds.to_string(), "counters: waits in 80% to 90% of its cycles");
}

#[test]
fn counts_that_go_backwards_or_end_tell_nothing() {
    let backwards = finished(|_, _| recorded(&[BEFORE, [SECOND_NS, 50, 40, 10]]));
    assert!(backwards.unwrap_err().contains("backwards"));
    let ended = finished(|_, _| recorded(&[BEFORE]));
    assert!(ended.unwrap_err().contains("cannot be read"));
    let missing = finished(|_, _| Err(CounterError::Missing));
    assert!(missing.unwrap_err().contains("shows no such counter"));
}

proptest! {
    #[test]
    fn any_counts_have_bounded_shares_and_confidence(
        counts in prop::collection::vec(any::<u64>(), 0..7),
        small in prop::collection::vec(0..2_000_000_000_u64, 5),
        times: (u64, u64), no_flushes: bool,
    ) {
        for table in super::tables::tests::all() {
            for counts in [&counts[..], &small[..], &small[..4], &small[..3]] {
                let (wanted_ns, counted_ns) = times;
                let reading = GroupReading { wanted_ns, counted_ns, counts: counts.to_vec() };
                let Ok(bounds) = table.bounds(&reading) else { continue };
                prop_assert_eq!(counts.len(), table.events().len(), "a count is missing");
                prop_assert!(0.0 <= bounds.at_least && bounds.at_least <= bounds.at_most);
                prop_assert!(bounds.at_most <= 1.0);
                if let Ok((_, confidence)) = bounds.class(no_flushes) {
                    prop_assert!((LEAST_SURE..=0.95).contains(&confidence));
                }
            }
        }
    }

    /// From computing over unknown to stalling.
    #[test]
    fn more_waits_never_look_like_fewer(
        shares in prop::collection::vec(0.0..=1.0_f64, 2), surest in 0.5..=0.95_f64, gap in 0.0..=0.5_f64,
    ) {
        let sure = |at_least: f64| {
            let at_most = (at_least + gap).min(1.0);
            let bounds = WaitBounds { at_least, at_most, sees_flushes: true, surest };
            match bounds.class(false) {
                Ok((Class::Stall, sure)) => sure,
                Ok((_, sure)) => -sure,
                Err(_) => 0.0,
            }
        };
        let (low, high) = (shares[0].min(shares[1]), shares[0].max(shares[1]));
        prop_assert!(sure(low) <= sure(high));
    }

    #[test]
    fn more_stalled_cycles_never_look_like_fewer(
        far in prop::collection::vec(0..=1_000_000_000_u64, 2), rest in 0..=1_000_000_000_u64,
    ) {
        let bounds = |far: u64| {
            let idle = far.max(rest);
            by_folder("sapphirerapids").bounds(&reading(&[1_000_000_000, idle, far, 0])).unwrap()
        };
        let (low, high) = (bounds(far[0].min(far[1])), bounds(far[0].max(far[1])));
        prop_assert!(low.at_least <= high.at_least && low.at_most <= high.at_most);
    }
}
