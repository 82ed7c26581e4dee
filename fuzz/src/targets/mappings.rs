//! The kernel's lists of a process's mappings, with arbitrary paths: each sign of persistent memory
//! is found at any position, and its description is one line.

use daiko_pair::class::Mappings;

/// The input is `maps`, a zero byte, `mountinfo`. Either all queried files are mapped by DAX or
/// none.
pub(super) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (maps, mounts) = text.split_once('\0').unwrap_or((&text, ""));
    let read = |maps: &str, mounts: &str, is_dax| {
        assert_line(Mappings::parse(maps, mounts, |_| is_dax).persistent())
    };
    read(maps, mounts, true);
    read(maps, mounts, false);
    let file = "\n1000-3000 rw-s 00002000 103:02 12 /pool\n";
    for (options, is_dax) in [("rw,dax=always", false), ("rw", true)] {
        let dax = format!("\n36 35 259:2 / /mnt rw,noatime - ext4 /dev/pmem0 {options}\n");
        let told = read(&format!("{maps}{file}"), &format!("{mounts}{dax}{mounts}"), is_dax);
        assert!(told.is_some_and(|told| told.ends_with("is mapped by DAX")), "the surest sign");
    }
}

fn assert_line(told: Option<String>) -> Option<String> {
    if let Some(told) = &told {
        assert!(!told.is_empty() && !told.contains(char::is_control), "{told:?}");
    }
    told
}
