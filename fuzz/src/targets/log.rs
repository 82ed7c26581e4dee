//! The log of the example `kv`: its changes are those of the first whole records, for any bytes
//! behind them.

use super::resp::contents::{self, KeyChange};
use super::resp::record::{Format, HEAD_BYTES};
use super::resp::replay::{Rest, replay};

/// The input is a seed, a kind of damage, its place, and descriptions of records.
pub(super) fn fuzz(data: &[u8]) {
    let Some((&[seed, damage, high, low, mask], rest)) = data.split_first_chunk() else { return };
    let format = Format::with_seed(u32::from(seed) * 0x0101_0101);
    let mut log = format.head().to_vec();
    if damage % 3 == 0 {
        any_bytes(log, rest);
        return;
    }
    let (mut ends, mut changes) = (vec![HEAD_BYTES], vec![0]);
    let described = described(rest);
    for record in &described {
        format.append(&mut log, &contents::encoded(record));
        ends.push(log.len());
        changes.push(changes[changes.len() - 1] + record.len());
    }
    let place = usize::from(u16::from_be_bytes([high, low]));
    let place = HEAD_BYTES + place % (log.len() - HEAD_BYTES + 1);
    if damage % 3 == 1 {
        log.truncate(place);
    } else if place < log.len() {
        log[place] ^= mask.max(1);
    }
    let is_changed = damage % 3 == 2 && place < log.len();
    let whole = ends.iter().filter(|end| **end <= place).count() - 1;
    let behind = (log.len() - ends[whole]) as u64;
    let expected: Vec<_> = described.concat().into_iter().take(changes[whole]).collect();
    let rest = match behind {
        0 => Rest::None,
        _ if is_changed && whole + 1 < described.len() => Rest::Damaged(behind),
        _ => Rest::Torn(behind),
    };
    assert_eq!(replayed(&log, &expected), (ends[whole] as u64, rest));
}

/// Asserts that the changes in a log are these. Returns the bytes of whole records, and the rest.
fn replayed(log: &[u8], expected: &[KeyChange<'_>]) -> (u64, Rest) {
    let mut expected = expected.iter();
    let contents = replay(log, |record| {
        contents::changes(record).for_each(|change| assert_eq!(Some(&change), expected.next()));
    });
    assert_eq!(expected.next(), None);
    let contents = contents.expect("a log");
    (contents.bytes, contents.rest)
}

/// Asserts that all bytes of any log are counted, in its head as well.
fn any_bytes(mut log: Vec<u8>, bytes: &[u8]) {
    let _ = replay(bytes, |_| ());
    log.extend_from_slice(bytes);
    let contents = replay(&log[..], |_| ()).expect("a head");
    let rest = match contents.rest {
        Rest::None => 0,
        Rest::Torn(bytes) | Rest::Damaged(bytes) => bytes,
    };
    assert_eq!(contents.bytes + rest, log.len() as u64);
}

/// The changes of records: each byte describes one by its lower bits, and the bytes behind it are
/// its key and its value. A byte with the highest bit begins a new record.
fn described(mut rest: &[u8]) -> Vec<Vec<KeyChange<'_>>> {
    let mut records: Vec<Vec<_>> = Vec::new();
    while let Some(&kind) = rest.split_off_first() {
        let mut text = || {
            let bytes = usize::from(kind >> 2 & 7).min(rest.len());
            rest.split_off(..bytes).unwrap_or_default()
        };
        let change = match kind & 3 {
            0 => KeyChange::Clear,
            1 => KeyChange::Remove { key: text() },
            _ => KeyChange::Set { key: text(), value: text(), expires: i64::from(kind) << 40 },
        };
        match records.last_mut().filter(|_| kind < 0x80) {
            Some(record) => record.push(change),
            None => records.push(vec![change]),
        }
    }
    records
}
