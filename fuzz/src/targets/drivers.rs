//! Answers and figures of programs in other languages, and messages of compilers and children.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use daiko_lab::{
    Failure,
    experiments::{
        ipc,
        ring::{RingOutcome, peers},
    },
    kit::failure,
};

/// The input is the exit code, two numbers, then any text.
pub(super) fn fuzz(data: &[u8]) {
    let Some((&[code, ref numbers @ ..], rest)) = data.split_first_chunk::<17>() else { return };
    let status = ExitStatus::from_raw(i32::from(code) << 8);
    let (first, second) = numbers.split_at(8);
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    numbers_are_read(number(first), number(second));
    any_answer(&String::from_utf8_lossy(rest), status);
    complaints_are_lines(rest);
    figures_are_numbers(data);
}

fn numbers_are_read(first: u64, second: u64) {
    let (reply, code) =
        (format!("{first} {second} {first}\n"), |code: i32| ExitStatus::from_raw(code << 8));
    let elapsed = Duration::from_nanos(first);
    let outcome = RingOutcome { elapsed, laps: second, cpu: Some(elapsed) };
    assert_eq!(peers::read_reply(&reply, code(0)), Ok(outcome));
    let wrong = Failure::WrongDatum { expected: first, found: second };
    assert_eq!(peers::read_reply(&format!("{first} {second}\n"), code(3)), Err(wrong));
}

fn any_answer(reply: &str, status: ExitStatus) {
    match peers::read_reply(reply, status) {
        Ok(_) => assert!(status.success()),
        Err(failure) => assert!(!failure.to_string().contains(char::is_control), "{failure:?}"),
    }
}

fn complaints_are_lines(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in [peers::first_error(&text), failure::last_line(bytes)] {
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}

/// Figures of two ranks of MPI are finite.
fn figures_are_numbers(data: &[u8]) {
    let (words, _) = data.as_chunks::<8>();
    let (one, other) = words.split_at(words.len() / 2);
    for ranks in [&[one.as_flattened(), other.as_flattened()][..], &[words.as_flattened()]] {
        let readings = ipc::sample_of(ranks).into_iter().flat_map(|sample| sample.readings);
        readings.for_each(|reading| assert!(reading.value.is_finite(), "{reading:?}"));
    }
}
