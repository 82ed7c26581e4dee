//! The journal of `daiko pair`, written by a session that may have been killed at any byte: all changes are read that were
//! noted whole, and nothing else.

use daiko_pair::{
    journal::{Change, head, parse},
    thread::ThreadId,
};
use daiko_sys::cpu::CpuSet;

/// A length; then changes of 15 bytes each; what is left is read as a journal's own text.
pub(super) fn fuzz(data: &[u8]) {
    let Some((len, data)) = data.split_first_chunk() else { return };
    let (changes, noise) = data.as_chunks();
    cut(&changes.iter().map(change).collect::<Vec<_>>(), u16::from_le_bytes(*len).into());
    noisy(data);
    noisy(noise);
}

fn change(bytes: &[u8; 15]) -> Change {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let cpus = |bits: u8, step: u8| -> CpuSet {
        let cpus = (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| bit * usize::from(step));
        cpus.collect()
    };
    let thread = ThreadId { pid: word(0), tid: word(4), start: u64::from(word(8)) << 20 };
    let step = bytes[14];
    Change { thread, before: cpus(bytes[12] | 1, step), during: cpus(bytes[13] | 1, step) }
}

fn cut(changes: &[Change], len: usize) {
    let lines: Vec<String> = changes.iter().map(|change| format!("{change}\n")).collect();
    let mut text = head() + &lines.concat();
    let len = len % (text.len() + 1);
    text.truncate(len);
    let mut end = head().len();
    let whole = lines.iter().take_while(|line| {
        end += line.len();
        end <= len
    });
    assert_eq!(parse(text.as_bytes()), changes[..whole.count()]);
}

/// What is read of any bytes reads the same when it is written out.
fn noisy(bytes: &[u8]) {
    let read = parse(&[head().as_bytes(), bytes].concat());
    let written: String = read.iter().map(|change| format!("{change}\n")).collect();
    assert_eq!(parse(&(head() + &written).into_bytes()), read);
    if !bytes.starts_with(head().as_bytes()) {
        assert_eq!(parse(bytes), []);
    }
}
