//! What the kernel says of a process's mappings, among paths that anybody may have chosen: each sign of persistent memory is
//! seen wherever it stands, and what is told of it is one line.

use daiko_pair::class::Mappings;

/// What `smaps` says, a zero byte, what `mountinfo` says.
pub(super) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (maps, mounts) = text.split_once('\0').unwrap_or((&text, ""));
    let read = |maps: &str, mounts: &str| Mappings::parse(maps, mounts).persistent();
    assert_line(read(maps, mounts));
    let sync = "\n1000-3000 rw-s 00002000 103:02 12 /pool\nVmFlags: rd wr sh sf\n4000-5000 rw-p 0 00:00 0\n";
    let told = assert_line(read(&format!("{maps}{sync}{maps}"), mounts));
    assert!(told.is_some_and(|told| told.ends_with("is mapped with MAP_SYNC")));
    let dax = "\n36 35 259:2 / /mnt rw,noatime - ext4 /dev/pmem0 rw,dax=always\n";
    let file = "\n1000-3000 rw-s 00002000 103:02 12 /pool\n";
    let told = assert_line(read(&format!("{maps}{file}"), &format!("{mounts}{dax}{mounts}")));
    assert!(told.is_some_and(|told| !told.starts_with("libpmem")), "the surest sign is told");
}

fn assert_line(told: Option<String>) -> Option<String> {
    if let Some(told) = &told {
        assert!(!told.is_empty() && !told.contains(char::is_control), "{told:?}");
    }
    told
}
