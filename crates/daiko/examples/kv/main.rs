//! A key-value store in memory, for any client of Redis.
//!
//! ```sh
//! cargo run --release --example kv -- 127.0.0.1:6379 &
//! redis-cli set city Kyoto
//! redis-cli get city
//! redis-benchmark -t set,get -P 16
//! ```
//!
//! Read `serve`, which has the loop of a connection, then `resp` (what requests and replies look like), `commands`, and
//! `store`. It does what Redis does with `GET SET DEL EXISTS INCR MGET MSET PING INFO COMMAND` and some that clients
//! send on their own, in its words; but it has one database, forgets all when it ends, and does not read on from
//! who does not read its replies. Port 0 is any that is free.

mod commands;
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
use serve::{Connection, serve};

fn main() -> ExitCode {
    let address = std::env::args_os().nth(1).unwrap_or("127.0.0.1:6379".into());
    let Err(problem) = daiko::run(move || listen(&address.to_string_lossy()));
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(io::stderr(), "kv: {problem}");
    ExitCode::FAILURE
}

/// Serves whoever connects to `address`, until it is killed.
fn listen(address: &str) -> Result<Infallible, String> {
    let cannot = |error| format!("cannot listen on {address:?}: {error}; use it so: kv [ADDRESS]");
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    // It serves, whether or not anybody reads that.
    let _ = writeln!(io::stdout(), "serves {at}");
    let server = Arc::new(Database::new());
    loop {
        match listener.accept() {
            Ok((stream, _)) => start(stream, &server),
            // Too many descriptors are open, say. It comes after a pause, in which others may leave.
            Err(error) => _ = writeln!(io::stderr(), "kv: cannot accept: {error}"),
        }
    }
}

fn start(mut stream: TcpStream, server: &Arc<Database>) {
    let server = server.clone();
    // Where there is no memory for a fiber the connection is closed; what ends one is its client's affair.
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
