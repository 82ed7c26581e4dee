//! The mappings of a process, by `/proc/PID/maps`.

use std::ops::Range;

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// True if the process may read it.
    pub is_readable: bool,
    /// True if the process may write it.
    pub is_writable: bool,
    /// True if the process may run it.
    pub is_code: bool,
    /// True if other processes see the changes.
    pub is_shared: bool,
    /// The file, by its device and its inode, as the kernel writes them; empty: not known.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The path of the file, or the kernel's name in brackets; empty: it has none.
    pub path: String,
}

/// Parses the text of `/proc/PID/maps`. Lines that are not understood are left out.
pub fn parse_maps(text: &str) -> Vec<MemoryMapping> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<MemoryMapping> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        word
    };
    let (range, rights, offset) = (word(), word(), word());
    let (device, inode) = (word(), word());
    let (start, end) = range.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let has = |right| rights.contains(right);
    (start < end).then(|| MemoryMapping {
        range: start..end,
        is_readable: has('r'),
        is_writable: has('w'),
        is_code: has('x'),
        is_shared: has('s'),
        file: format!("{device} {inode}"),
        offset: hex(offset).unwrap_or(0),
        path: unescape(rest.trim_start()),
    })
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

/// The kernel writes a line break of a path as `\012`.
fn unescape(path: &str) -> String {
    path.replace("\\012", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_parsed() {
        let text = "7f00a0000000-7f00a0001000 r-xp 00002000 fd:00 12345    /usr/lib/my lib.so\n\
                    7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]\n\
                    7ffd3000-7ffd4000 ---s 00000000 00:01 77 \n\
                    nonsense\n\
                    5-3 rw-p 0 0 0\n";
        let maps = parse_maps(text);
        assert_eq!(maps.len(), 3);
        assert_eq!(
            maps[0],
            MemoryMapping {
                range: 0x7f00_a000_0000..0x7f00_a000_1000,
                is_readable: true,
                is_writable: false,
                is_code: true,
                is_shared: false,
                file: "fd:00 12345".into(),
                offset: 0x2000,
                path: "/usr/lib/my lib.so".into(),
            }
        );
        assert_eq!((maps[1].path.as_str(), maps[1].is_writable), ("[stack]", true));
        assert_eq!((maps[2].path.as_str(), maps[2].is_shared), ("", true));
    }
}
