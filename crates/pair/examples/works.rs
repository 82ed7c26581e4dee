//! Programs with known classes, for tests of `daiko pair` in a guest.
//!
//! `works stall FILE` stalls until the file exists and computes from then on; `works compute FILE`
//! does the opposite. A trailing `shared MAPPED` or `sync MAPPED` maps that file as well, the
//! latter with `MAP_SYNC`; with `count MAPPED` the program counts its rounds in the first 8 bytes.

use std::{arch::asm, env, fs::File, io, os::fd::AsRawFd, path::Path, process::ExitCode, ptr};

/// Rounds of a call.
const ROUNDS: u64 = 1 << 10;
/// Calls between two checks for the file.
const CALLS: u64 = 1 << 10;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (begin, turn, mapped) = match words[..] {
        [begin, turn] => (begin, turn, None),
        [begin, turn, "shared" | "count", mapped] => {
            (begin, turn, Some((mapped, libc::MAP_SHARED)))
        }
        [begin, turn, "sync", mapped] => {
            (begin, turn, Some((mapped, libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC)))
        }
        _ => return usage(),
    };
    let (before, after): (fn(), fn()) = match begin {
        "stall" => (stall, compute),
        "compute" => (compute, stall),
        _ => return usage(),
    };
    let start = match mapped.map(|(path, flags)| map(path, flags)).transpose() {
        Ok(start) => start,
        Err(error) => {
            eprintln!("works: cannot map the file: {error}");
            return ExitCode::FAILURE;
        }
    };
    let count = start.filter(|_| words.get(2) == Some(&"count"));
    while !Path::new(turn).exists() {
        repeat(before, count);
    }
    loop {
        repeat(after, count);
    }
}

/// Calls `stall` or `compute`, and counts the calls.
fn repeat(work: fn(), count: Option<*mut u64>) {
    for _ in 0..CALLS {
        work();
        if let Some(count) = count {
            // SAFETY: the mapping stays, and is aligned; only this thread writes to it.
            unsafe { count.write_volatile(count.read_volatile() + 1) };
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("works: usage: works stall|compute FILE [shared|sync|count MAPPED]");
    ExitCode::FAILURE
}

/// Writes a line back again and again, and waits each time.
fn stall() {
    let line = [0_u8; 64];
    // SAFETY: writing back a line of a live local changes no value.
    unsafe {
        asm!("2:", "clflush [{line}]", "sfence", "dec {rounds}", "jnz 2b", line = in(reg) &line,
            rounds = inout(reg) ROUNDS => _, options(nostack));
    }
}

fn compute() {
    // SAFETY: uses registers only.
    unsafe {
        asm!("2:", "imul {value}, {value}, 3", "dec {rounds}", "jnz 2b", value = inout(reg) 1_u64 => _,
            rounds = inout(reg) ROUNDS => _, options(nostack, nomem));
    }
}

/// Maps the file for the rest of the program's life.
fn map(path: &str, flags: i32) -> io::Result<*mut u64> {
    let file = File::options().read(true).write(true).open(path)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    let start = unsafe { libc::mmap(ptr::null_mut(), 4096, access, flags, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start.cast()) }
}
