//! A key-value store in memory, for any client of Redis.
//!
//! ```sh
//! cargo run --release --example kv -- 127.0.0.1:6379 &
//! redis-cli set city Kyoto
//! redis-cli get city
//! redis-benchmark -t set,get -P 16
//! ```
//!
//! Read `serve`, which has the loop of a connection, then `buffers`, `resp` (the form of requests
//! and replies), `commands`, and `store`. It handles `GET SET DEL EXISTS INCR MGET MSET PING INFO
//! COMMAND`, and some commands that clients send on their own, as Redis does, with the same
//! messages. But it has one database, forgets all keys when it ends, and stops reading from a
//! client that does not read its replies. Port 0 stands for any free port.

mod buffers;
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
    // If standard error is closed, there is no place for a message.
    let _ = writeln!(io::stderr(), "kv: {problem}");
    ExitCode::FAILURE
}

/// Serves all clients that connect to `address`, until it is killed.
fn listen(address: &str) -> Result<Infallible, String> {
    let cannot = |error| format!("cannot listen on {address:?}: {error}; use it so: kv [ADDRESS]");
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    // It serves even if standard output is closed.
    let _ = writeln!(io::stdout(), "serves {at}");
    let server = Arc::new(Database::new());
    loop {
        match listener.accept() {
            Ok((stream, _)) => start(stream, &server),
            // An example is too many open descriptors. The error comes after a pause, in which
            // clients may leave.
            Err(error) => _ = writeln!(io::stderr(), "kv: cannot accept: {error}"),
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
