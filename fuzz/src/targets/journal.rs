//! The journal of `daiko pair`, from a session that was killed at any byte: exactly the completely
//! written changes are read.

use daiko_pair::{
    journal::{Change, Content, head, parse},
    thread::ThreadId,
};
use daiko_sys::cpu::CpuSet;

/// Start time of the session.
const SINCE: u64 = 7;

/// The input is a length, then changes of 15 bytes each; the rest is read as a journal's own text.
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

fn read(changes: &[Change]) -> Content {
    Content::Changes { since: SINCE, changes: changes.to_vec() }
}

fn cut(changes: &[Change], len: usize) {
    let lines: Vec<String> = changes.iter().map(|change| format!("{change}\n")).collect();
    let mut text = head(SINCE) + &lines.concat();
    let len = len % (text.len() + 1);
    text.truncate(len);
    let mut end = head(SINCE).len();
    let whole = lines.iter().take_while(|line| {
        end += line.len();
        end <= len
    });
    let wanted = match len < head(SINCE).len() {
        true => Content::Over,
        false => read(&changes[..whole.count()]),
    };
    assert_eq!(parse(text.as_bytes()), wanted);
}

/// The changes read from any bytes are the same after printing.
fn noisy(bytes: &[u8]) {
    let noise = parse(&[head(SINCE).as_bytes(), bytes].concat());
    let Content::Changes { changes, .. } = &noise else { panic!("it has a head: {noise:?}") };
    let written: String = changes.iter().map(|change| format!("{change}\n")).collect();
    assert_eq!(parse((head(SINCE) + &written).as_bytes()), noise);
    parse(bytes);
}
