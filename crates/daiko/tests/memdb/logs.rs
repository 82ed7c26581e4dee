//! Logs that are cut, changed, or of other programs.

use std::fs;

use super::contents::LogEntry;
use super::place::{LogFolder, SMALL, open, rows, writes};
use super::record::{Format, HEAD_BYTES, begin};
use super::request::{DbRequest, Reply};
use super::schema::Scale;

/// Returns the end of each record of a log.
fn ends(log: &[u8]) -> Vec<usize> {
    let format = Format::of_head(log).unwrap();
    let mut ends = vec![HEAD_BYTES];
    loop {
        let at = ends[ends.len() - 1];
        match format.next(&log[at..]) {
            super::record::Next::Record { bytes, .. } => ends.push(at + bytes),
            _ => return ends,
        }
    }
}

#[test]
fn a_log_that_is_torn_at_any_byte_of_its_last_record_has_the_requests_before() {
    let folder = LogFolder::filled(20);
    let whole = fs::read(&folder.path).unwrap();
    let ends = ends(&whole);
    assert_eq!((ends.len(), ends[ends.len() - 1]), (22, whole.len()));
    let [.., before, last, _] = ends[..] else { panic!("few records") };
    fs::write(&folder.path, &whole[..last]).unwrap();
    let expected = rows(&folder.open().tables);
    fs::write(&folder.path, &whole[..before]).unwrap();
    assert!(rows(&folder.open().tables) != expected);
    for cut in last..whole.len() {
        fs::write(&folder.path, &whole[..cut]).unwrap();
        let opened = folder.open();
        assert_eq!(fs::metadata(&folder.path).unwrap().len(), last as u64, "{cut}");
        assert!(rows(&opened.tables) == expected, "{cut}");
        if cut % 16 != 0 {
            continue;
        }
        // The log goes on behind the cut.
        let request = writes().next().unwrap();
        let (_, position) = opened.database.execute(&request);
        opened.database.log().unwrap().reach(position).unwrap();
        let after = rows(&opened.tables);
        drop(opened);
        assert!(rows(&folder.open().tables) == after, "{cut}");
    }
}

#[test]
fn a_log_that_is_torn_in_its_first_record_is_that_of_an_empty_database() {
    let folder = LogFolder::filled(0);
    let whole = fs::read(&folder.path).unwrap();
    let expected = rows(&folder.open().tables);
    for cut in HEAD_BYTES..whole.len() {
        fs::write(&folder.path, &whole[..cut]).unwrap();
        assert!(rows(&folder.open().tables) == expected, "{cut}");
        assert_eq!(fs::read(&folder.path).unwrap().len(), whole.len());
    }
}

#[test]
fn a_log_with_a_damaged_record_in_the_middle_is_refused_and_left_alone() {
    let folder = LogFolder::filled(3);
    let whole = fs::read(&folder.path).unwrap();
    let [.., from, to, _, _] = ends(&whole)[..] else { panic!("few records") };
    for byte in from..to {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x40;
        fs::write(&folder.path, &damaged).unwrap();
        let error = open(&folder.options()).err().unwrap();
        let place = format!("is damaged at byte {from}");
        assert!(error.contains(&place) && error.contains("--cut-damaged"), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert!(fs::read(&folder.path).unwrap() == damaged);
    }
    let mut options = folder.options();
    options.log.as_mut().unwrap().cuts_damaged = true;
    let opened = open(&options).unwrap();
    assert_eq!(opened.database.execute(&DbRequest::Check).0, Reply::Consistent);
    assert_eq!(fs::metadata(&folder.path).unwrap().len(), from as u64);
}

#[test]
fn files_of_other_programs_are_refused_and_left_alone() {
    let folder = LogFolder::new();
    let head_of_kv = [&b"kv-log 1"[..], &Format::with_seed(1).head()[8..]].concat();
    for contents in [&b"a letter"[..], &[0; 100], &head_of_kv] {
        fs::write(&folder.path, contents).unwrap();
        let error = open(&folder.options()).err().unwrap();
        assert!(error.ends_with("is no log of this program: name another file"), "{error}");
        assert_eq!(fs::read(&folder.path).unwrap(), contents);
    }
}

#[test]
fn records_that_do_not_fit_each_other_are_refused() {
    let filled = LogEntry::Filled { seed: 1, scale: SMALL };
    let change = LogEntry::Changed(DbRequest::Delivery { warehouse: 1, carrier: 1 });
    let elsewhere = LogEntry::Changed(DbRequest::Delivery { warehouse: 4, carrier: 1 });
    for entries in [&[change, filled][..], &[filled, filled], &[filled, change, elsewhere]] {
        let (folder, format) = (LogFolder::new(), Format::new());
        let mut log = format.head().to_vec();
        for entry in entries {
            let start = begin(&mut log);
            entry.encode(&mut log);
            format.finish(&mut log, start);
        }
        fs::write(&folder.path, &log).unwrap();
        let error = open(&folder.options()).err().unwrap();
        assert!(error.contains("restore a copy") && error.lines().count() == 1, "{error}");
        assert!(fs::read(&folder.path).unwrap() == log);
    }
}

#[test]
fn a_log_keeps_its_numbers_of_rows() {
    let folder = LogFolder::filled(5);
    let mut options = folder.options();
    options.scale = None;
    assert_eq!(open(&options).unwrap().tables.scale, SMALL);
    options.scale = Some(Scale { warehouses: 4, ..SMALL });
    let error = open(&options).err().unwrap();
    let remedy =
        "the log has 3 warehouses, 30 customers of a district and 200 items: leave --warehouses";
    assert!(error.starts_with(remedy), "{error}");
}
