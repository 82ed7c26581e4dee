//! A key-value store, for any client of Redis: in memory, or in a log that lasts.
//!
//! ```sh
//! cargo run --release --example kv -- 127.0.0.1:6379 --log /var/tmp/kv.log --fsync always &
//! redis-cli set city Kyoto
//! redis-cli get city
//! redis-benchmark -t set,get -P 16
//! ```
//!
//! Read `serve`, which has the loop of a connection, then `buffers`, `resp` (the form of requests
//! and replies), `commands`, and `store`. It handles `GET SET DEL EXISTS INCR MGET MSET PING INFO
//! COMMAND`, and some commands that clients send on their own, as Redis does, with the same
//! messages. But it has one database, and stops reading from a client that does not read its
//! replies. Port 0 stands for any free port.
//!
//! With `--log`, each change is a record in a file, from which the next server reads the keys
//! again: see `contents`, and in the folder `log`, which the example
//! `memdb` shares, `record` (its form), `replay`, `file`, and `log`, where many requests share a
//! write.
//! No reply tells of a change that the log does not have. `--fsync` says when that lasts through a
//! loss of power, as `appendfsync` of Redis does: `always` before the reply, `everysec` (the
//! default) each second, `no` when the kernel likes. A log is rewritten, with the present keys
//! only, whenever it has doubled and has at least `--rewrite-from` bytes (by default 64 MiB).

mod buffers;
mod commands;
mod contents;
#[path = "../log/file.rs"]
mod file;
#[path = "../log/log.rs"]
mod log;
mod options;
#[path = "../log/platform.rs"]
mod platform;
#[path = "../log/record.rs"]
mod record;
#[path = "../log/replay.rs"]
mod replay;
mod resp;
mod serve;
mod store;
mod words;

use std::convert::Infallible;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use daiko::net::{TcpListener, TcpStream};

use commands::Database;
use file::tell;
use options::{Options, USAGE};
use serve::{Connection, serve};

fn main() -> ExitCode {
    let problem = match Options::of(std::env::args_os().skip(1)) {
        Ok(options) => {
            let Err(problem) = daiko::run(move || listen(&options));
            problem
        }
        Err(problem) => problem,
    };
    tell(&problem);
    ExitCode::FAILURE
}

/// Serves all clients that connect, until it is killed.
fn listen(options: &Options) -> Result<Infallible, String> {
    let address = &options.address;
    let cannot = |error| format!("cannot listen on {address:?}: {error}; {USAGE}");
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    let server = match &options.log {
        None => Arc::new(Database::new()),
        Some(log) => {
            let server = Database::open(log)?;
            server.keep();
            server
        }
    };
    // It serves even if standard output is closed.
    let _ = writeln!(io::stdout(), "serves {at}");
    loop {
        match listener.accept() {
            Ok((stream, _)) => start(stream, &server),
            // An example is too many open descriptors. The error comes after a pause, in which
            // clients may leave.
            Err(error) => tell(&format!("cannot accept: {error}")),
        }
    }
}

fn start(mut stream: TcpStream, server: &Arc<Database>) {
    let server = server.clone();
    // Without memory for a fiber the connection is closed. An error that ends a connection concerns
    // its client only.
    let _ = daiko::Builder::new().spread().spawn(move || {
        let _ = stream.set_nodelay(true);
        let _ = serve(&mut stream, &server);
    });
}

impl Connection for TcpStream {
    fn wait_readable(&mut self) -> io::Result<()> {
        self.readable()
    }
}
