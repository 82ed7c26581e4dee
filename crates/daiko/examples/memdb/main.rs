//! An in-memory database with a log, for transactions like those of TPC-C.
//!
//! ```sh
//! alias memdb='cargo run --release --example memdb --'
//! memdb serve --segment bank --tcp 127.0.0.1:7000 --log /var/tmp/bank.log --fsync always &
//! memdb bench --segment bank --sessions 1000
//! memdb bench --tcp 127.0.0.1:7000 --sessions 1000
//! memdb check --segment bank
//! memdb stop --segment bank
//! ```
//!
//! Read `schema` and `transactions`, then `database`, which makes them serializable, and `session`
//! and `serve`, by which clients reach it. The tables lie in a segment, as plain rows. Clients in
//! other processes call a service there; clients anywhere connect over TCP. Each session is a
//! fiber, which waits for its client or for the log, so there may be thousands.
//!
//! The log has the requests that have changed rows (`contents`), which the next server repeats. Its
//! file, and the write that many sessions share, are in the folder `log`, which the example `kv`
//! shares. No reply tells of a change that the log does not have: while the log cannot be written,
//! changes are refused, and so are reads of rows that have changed without it. The log is never
//! shortened: a start takes the time to repeat all requests.
//!
//! # Differences from TPC-C
//!
//! The load has the transactions of TPC-C, in its usual mix, with its cardinalities and its skew.
//! It is no implementation of the benchmark, and its figures are not comparable with published
//! figures:
//!
//! - Rows have numbers, and no texts, dates or addresses. Customers are asked for by number, never
//!   by last name, and have no credit rating. No history of payments is kept, but the sums that
//!   check them are.
//! - A district keeps a fixed number of orders, 4096 of 3000 customers: an older order is
//!   overwritten once it is delivered. A delivery is carried out at once, and delivers up to two
//!   orders of each district.
//! - A session sends its next request as soon as it is answered, or when the load is due: there are
//!   no keying and think times, and the number of sessions does not depend on that of warehouses.
//! - A session has one warehouse, and any of its districts.

mod bench;
mod check;
mod client;
mod contents;
mod converse;
mod database;
#[path = "../log/file.rs"]
#[allow(dead_code, reason = "it replaces no log")]
mod file;
#[path = "../log/log.rs"]
#[allow(dead_code, reason = "it rewrites no log")]
mod log;
mod mix;
mod options;
#[path = "../log/platform.rs"]
mod platform;
mod random;
#[path = "../log/record.rs"]
#[allow(dead_code, reason = "it rewrites no log")]
mod record;
#[path = "../log/replay.rs"]
mod replay;
mod request;
mod schema;
mod serve;
mod session;
mod tables;
mod transactions;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use daiko::shm::Segment;

use client::{Remote, RemoteError};
use database::{DatabaseOptions, MemDb};
use file::tell;
use log::LogOptions;
use options::{Action, CheckedPlace, ServerName};
use request::{DbRequest, Reply};
use tables::Tables;

fn main() -> ExitCode {
    let carried_out = Action::of(std::env::args_os().skip(1))
        .and_then(|action| daiko::run(move || carry_out(&action)));
    match carried_out {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tell(&problem);
            ExitCode::FAILURE
        }
    }
}

fn carry_out(action: &Action) -> Result<(), String> {
    match action {
        Action::Help => print(&options::help()),
        Action::Serve(options) => serve::serve(options),
        Action::Bench(options) => bench::run(options, &mut io::stdout()),
        Action::Check(CheckedPlace::Log(path)) => check_log(path),
        Action::Check(CheckedPlace::Server(server)) => {
            is_consistent(&ask(server, &DbRequest::Check)?)
        }
        Action::Stop(server) => match ask(server, &DbRequest::Stop)? {
            Reply::Stopped => Ok(()),
            _ => Err(RemoteError::Unreadable.to_string()),
        },
    }
}

/// Checks the tables that a log leads to. As by a server, a torn record at its end is cut off.
fn check_log(path: &Path) -> Result<(), String> {
    if !path.exists() {
        return Err(format!("there is no log {path:?}: name one that a server has made"));
    }
    let options = DatabaseOptions { log: Some(LogOptions::new(path)), ..Default::default() };
    let place = |scale| Segment::anonymous(Tables::bytes(scale) + (1 << 20));
    let database = MemDb::open(&options, |scale| place(scale).map_err(|e| e.to_string()))?;
    is_consistent(&database.execute(&DbRequest::Check).0)
}

fn ask(server: &ServerName, request: &DbRequest) -> Result<Reply, String> {
    let told = |error: RemoteError| error.to_string();
    Remote::connect(server).map_err(told)?.ask(request).map_err(told)
}

fn is_consistent(reply: &Reply) -> Result<(), String> {
    match reply {
        Reply::Consistent => print("consistent\n"),
        Reply::Inconsistent(condition) => {
            Err(format!("not consistent: {condition}; report it, and restore a copy of the log"))
        }
        Reply::Refused(refusal) => Err(refusal.to_string()),
        Reply::Failed(reason) => Err(reason.clone()),
        _ => Err(RemoteError::Unreadable.to_string()),
    }
}

/// Prints a text. A reader that has left is no failure.
fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}
