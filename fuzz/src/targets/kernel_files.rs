//! Files of `/proc` and `/sys` with one fact each: a fact written into any text is read back.

use daiko_lab::kit::host;
use daiko_sys::{limits, process, thread};

/// The input is a number, then any text.
pub(super) fn fuzz(data: &[u8]) {
    let Some((number, noise)) = data.split_first_chunk() else { return };
    let number = u64::from_le_bytes(*number);
    let text = String::from_utf8_lossy(noise);
    fields(number, &text);
    states(noise);
    starts(number, noise);
    calls(number, &text);
    models(&text);
    choices(&text);
}

fn fields(number: u64, text: &str) {
    let found = limits::kib_field(text, "VmRSS");
    assert!(found.is_none_or(|found| text.contains(&found.to_string())));
    if !text.lines().any(|line| line.starts_with("VmRSS:")) {
        let text = format!("{text}\nVmRSS:\t{number:>8} kB\n{text}");
        assert_eq!(limits::kib_field(&text, "VmRSS"), Some(number));
    }
}

/// The name of a thread, in parentheses, is arbitrary.
fn states(name: &[u8]) {
    for state in [b"R", b"S"] {
        let stat = [b"7 (", name, b") ", state, b" 1 2 3\n"].concat();
        assert_eq!(thread::says_runnable(&stat), state == b"R");
    }
}

/// The 22nd field is the start time; names of processes are arbitrary as well.
fn starts(ticks: u64, name: &[u8]) {
    let between = "0 ".repeat(18);
    let stat = [b"7 (", name, format!(") S {between}{ticks} 23\n").as_bytes()].concat();
    assert_eq!(process::parse_start(&stat), Some(ticks));
    let _ = process::parse_start(name);
}

fn calls(number: u64, text: &str) {
    assert!(thread::parse_syscall(text).is_none_or(|call| call >= 0));
    let call = thread::parse_syscall(&format!("{number} {text}"));
    assert_eq!(call, i64::try_from(number).ok());
    assert!(!thread::says_endless_wait(text) || thread::parse_syscall(text) == Some(thread::FUTEX));
    let timeout = number & 1;
    let wait = format!("{} {number:#x} 0x80 0x2 {timeout:#x} {text}", thread::FUTEX);
    assert_eq!(thread::says_endless_wait(&wait), timeout == 0);
}

fn models(text: &str) {
    let Some((noise, name)) = text.split_once('\n') else { return };
    let name = name.replace('\n', "");
    if !noise.starts_with("model name") {
        let info = format!("{noise}\nmodel name\t: {name}\n");
        assert_eq!(host::model_name(&info).as_deref(), Some(name.trim()));
    }
}

fn choices(text: &str) {
    let Some((left, chosen)) = text.split_once('[') else { return };
    let chosen = chosen.replace(']', "");
    assert_eq!(host::chosen(&format!("{left}[{chosen}] {text}")), Some(chosen));
}
