//! A key-value store in memory: a server process, and a command that asks it, over a `daiko::shm::Service`.
//!
//! ```sh
//! cargo run --release --example shm-kv -- server NAME &
//! cargo run --release --example shm-kv -- set NAME city Kyoto
//! cargo run --release --example shm-kv -- get NAME city
//! ```
//!
//! Read `protocol`, which says what lies in a slot, then `server` and `client`. What dies, and when, is the library's
//! affair: a client killed in mid-call leaves its slot to others, and who waits for a killed server is told at once.
//! What is left to a program is to decide what it asks again: see `watch`.

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
            // Nobody is left to tell if standard error is closed.
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

/// A key or a value on a line, whatever its bytes are.
fn print(out: &mut impl Write, bytes: &[u8]) -> Result<(), Problem> {
    Ok(out.write_all(&[bytes, b"\n"].concat())?)
}
