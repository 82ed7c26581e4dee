//! A key-value store in memory: a server process, and a client command, over a
//! `daiko::shm::Service`.
//!
//! ```sh
//! cargo run --release --example shm-kv -- server NAME &
//! cargo run --release --example shm-kv -- set NAME city Kyoto
//! cargo run --release --example shm-kv -- get NAME city
//! ```
//!
//! Read `protocol`, which defines the bytes of a slot, then `server` and `client`. The library
//! handles deaths: the slot of a client killed in mid-call becomes free, and a client that waits
//! for a killed server gets an error at once. The program has to decide which requests it repeats:
//! see `watch`.

mod args;
mod bench;
mod client;
mod problem;
mod protocol;
mod server;
mod store;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use args::{Action, Line};
use client::Kv;
use problem::Problem;

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)).and_then(carry_out) {
        Ok(()) | Err(Problem::ReaderGone) => ExitCode::SUCCESS,
        Err(problem) => {
            // If standard error is closed, there is no place for a message.
            let _ = writeln!(io::stderr(), "shm-kv: {problem}");
            ExitCode::from(problem.exit_code())
        }
    }
}

fn carry_out(Line { name, action }: Line) -> Result<(), Problem> {
    let out = &mut io::stdout();
    let kv = || Kv::connect(&name);
    match action {
        Action::Help => write!(out, "{}", args::help())?,
        Action::Server(options) => server::run(&name, options)?,
        Action::Get { key } => print(out, &kv()?.get(&key)?)?,
        Action::Set { key, value } => kv()?.set(&key, &value)?,
        Action::Del { key } => kv()?.del(&key)?,
        Action::Incr { key, by } => writeln!(out, "{}", kv()?.incr(&key, by)?)?,
        Action::Keys => kv()?.keys(|key| print(out, key))?,
        Action::Watch { key } => watch::run(&name, &key, |value| print(out, value))?,
        Action::Bench(options) => bench::run(&kv()?, options, out)?,
        Action::Stop => kv()?.stop()?,
    }
    Ok(())
}

/// Prints a key or a value on a line, with all of its bytes.
fn print(out: &mut impl Write, bytes: &[u8]) -> Result<(), Problem> {
    Ok(out.write_all(&[bytes, b"\n"].concat())?)
}
