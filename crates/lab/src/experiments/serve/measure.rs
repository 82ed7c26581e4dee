//! One sample of a server.

use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;
use std::{io, thread};

use daiko_sys::clock;

use super::generator::{Closed, Generator, Open};
use super::kv::LogLoad;
use super::method::ServerMethod;
use super::script::{Language, Script, Scripts};
use crate::kit::address::{Address, Socket};
use crate::kit::server::Server;
use crate::kit::{Failure, OrFailure, Reading, Sample, Unit, files, host};

/// Connections that are opened before the server must have accepted the last of them: fewer than
/// the shortest backlog of the servers.
const AT_ONCE: usize = 100;

const PERCENTILES: [(&str, u64); 3] = [("p50", 500), ("p99", 990), ("p999", 999)];

/// Parameters of a sample.
pub(super) struct ServeSpec<'a> {
    pub(super) method: ServerMethod,
    /// The log of a store, and the share of requests that write to it.
    pub(super) log: Option<LogLoad>,
    pub(super) connections: usize,
    /// First call of the server's process, which confines it.
    pub(super) begin: &'a dyn Fn() -> io::Result<()>,
    pub(super) client_cpu: usize,
    /// Duration of each part.
    pub(super) window: Duration,
}

impl ServeSpec<'_> {
    /// Measures throughput, its CPU cost, and latencies at half of it, with `pipeline` requests at
    /// once.
    ///
    /// # Errors
    /// Returns one line for the user.
    pub(super) fn load(&self, pipeline: usize) -> Result<Sample, Failure> {
        self.with_server(Socket::Tcp, pipeline, |server, generator| {
            self.connect(server, generator)?;
            // Warms up caches, buffers and predictors of both sides.
            let cpu_ns = || server.process.cpu_ns();
            generator.closed(self.window / 4, cpu_ns)?;
            let closed = generator.closed(self.window, cpu_ns)?;
            if closed.requests == 0 {
                let line = "no request was answered within the time of a sample";
                return Err(Failure::TooShort(line.into()));
            }
            let scripts_per_second = closed.rate() / 2.0 / pipeline as f64;
            let open = generator.open(scripts_per_second, self.window)?;
            Ok(load_sample(&closed, &open))
        })
    }

    /// Measures memory and CPU time of connections that have been served once and are now silent.
    ///
    /// # Errors
    /// Returns one line for the user.
    pub(super) fn idle(&self, socket: Socket) -> Result<Sample, Failure> {
        self.with_server(socket, 1, |server, generator| {
            // Memory for the server's first connections does not belong to each connection.
            generator.add(server.connect(true)?)?;
            generator.greet(0)?;
            let before = server.resident_bytes()?;
            self.connect(server, generator)?;
            let grown = server.resident_bytes()?.saturating_sub(before);
            let (cpu_ns, elapsed) = self.idle_cpu(server);
            let each = grown as f64 / self.connections as f64;
            Ok(Sample {
                rounds: self.connections as u64,
                elapsed,
                readings: vec![
                    Reading::stat(Unit::Bytes, "idle-memory", each),
                    Reading::percent("idle-cpu", cpu_ns, elapsed.as_nanos() as u64),
                ],
            })
        })
    }

    /// CPU time of the server while there are no requests and it has noticed that, and the length
    /// of this period.
    fn idle_cpu(&self, server: &Server) -> (u64, Duration) {
        thread::sleep(self.window / 4);
        let (start, before) = (clock::monotonic_ns(), server.process.cpu_ns());
        thread::sleep(self.window);
        let used = server.process.cpu_ns().saturating_sub(before);
        (used, Duration::from_nanos(clock::monotonic_ns() - start))
    }

    /// Calls `body` with a server that stores all keys, and a generator without connections.
    fn with_server(
        &self,
        socket: Socket,
        pipeline: usize,
        body: impl FnOnce(&Server, &mut Generator<'_>) -> Result<Sample, Failure>,
    ) -> Result<Sample, Failure> {
        files::allow(self.connections)?;
        let language = match self.log {
            Some(LogLoad { writes, .. }) => Language::Resp { writes },
            None => self.method.language,
        };
        let scripts = Scripts::new(language, pipeline);
        let server = Server::start(socket, &|address| self.serve(address))?;
        host::bind(self.client_cpu).or_limit("cannot bind to a CPU")?;
        let sample = || {
            set_up(&mut server.connect(false)?, &scripts.set_up)?;
            body(&server, &mut Generator::new(&scripts)?)
        };
        sample().map_err(|failure| server.process.explain(failure, "the server has"))
    }

    /// Body of the server's process.
    fn serve(&self, address: &Address) -> io::Result<Infallible> {
        (self.begin)()?;
        match self.log.zip(self.method.serve_logged) {
            Some((log, serve)) => serve(address, self.connections, log.fsync),
            None => (self.method.serve)(address, self.connections),
        }
    }

    /// Opens the missing connections, and lets each of them be served once.
    fn connect(&self, server: &Server, generator: &mut Generator<'_>) -> Result<(), Failure> {
        let end = generator.len() + self.connections;
        while generator.len() < end {
            let first = generator.len();
            for _ in first..end.min(first + AT_ONCE) {
                generator.add(server.connect(true)?)?;
            }
            generator.greet(first)?;
        }
        Ok(())
    }
}

/// Sends the requests that are needed once.
fn set_up(server: &mut File, script: &Script) -> Result<(), Failure> {
    let mut reply = vec![0; script.reply.len()];
    let result = server.write_all(&script.request).and_then(|()| server.read_exact(&mut reply));
    result.or_broken("cannot store the values")?;
    if reply[..] != script.reply[..] {
        return Err(Failure::Broken("the server does not store the values".into()));
    }
    Ok(())
}

/// Builds the sample. A round is a request.
fn load_sample(closed: &Closed, open: &Open) -> Sample {
    let cpu_ns = closed.server_cpu_ns;
    let mut readings = vec![
        Reading::stat(Unit::PerSecond, "throughput", closed.rate()),
        Reading::rate("cpu-throughput", closed.requests as f64, cpu_ns),
        Reading::percent("server-cpu", cpu_ns, closed.elapsed_ns),
        Reading::percent("client-cpu", closed.busy_ns, closed.elapsed_ns),
        Reading::stat(Unit::Ratio, "share", closed.share),
        Reading::percent("client-stall", open.stalled_ns, open.elapsed_ns),
    ];
    readings.extend(open.latencies.readings(&PERCENTILES));
    let elapsed = Duration::from_nanos(closed.elapsed_ns);
    Sample { rounds: closed.requests, elapsed, readings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Latencies;

    #[test]
    fn readings_are_per_second_of_the_clock_and_of_the_cpu() {
        let closed = Closed {
            requests: 1000,
            elapsed_ns: 10_000_000,
            busy_ns: 2_500_000,
            server_cpu_ns: 5_000_000,
            share: 0.75,
        };
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|latency| latencies.record(latency.min(60)));
        let open = Open { latencies, elapsed_ns: 200, stalled_ns: 1 };
        let sample = load_sample(&closed, &open);
        assert_eq!((sample.rounds, sample.elapsed), (1000, Duration::from_millis(10)));
        let values: Vec<f64> = sample.readings.iter().map(|reading| reading.value).collect();
        assert_eq!(values, [1e5, 2e5, 50.0, 25.0, 0.75, 0.5, 60.0, 60.0, 60.0]);
    }
}
