//! Measures transactions of many sessions, each a fiber that waits for each reply.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client::{Remote, RemoteError};
use super::file::tell;
use super::mix::{KINDS, Mix};
use super::options::{BenchOptions, ServerName};
use super::request::{DbRequest, Reply};
use super::schema::Scale;

/// The transactions of some sessions.
#[derive(Default)]
struct Outcome {
    /// The times of those with a reply, by kind.
    times: [Vec<Duration>; KINDS.len()],
    refused: u64,
    /// Requests without a reply, as the server has ended. Each may have been carried out.
    interrupted: u64,
}

/// Sends transactions, and prints their number and times.
///
/// # Errors
///
/// One line for the user.
pub(crate) fn run(options: &BenchOptions, out: &mut impl Write) -> Result<(), String> {
    let mut remote = Remote::connect(&options.server).map_err(told)?;
    let scale = scale_of(&mut remote)?;
    let begun = Instant::now();
    let end = begun + options.run;
    let outage = Outage::default();
    let outcomes: Vec<Result<Outcome, String>> = daiko::scope(|scope| {
        let sessions: Vec<_> = (0..options.sessions as usize)
            .map(|session| {
                let (remote, outage) = (remote.another(&options.server), &outage);
                scope.spawn(move || {
                    let mix = Mix::new(options.seed, session, scale);
                    converse(remote.map_err(told)?, &options.server, mix, outage, end)
                })
            })
            .collect();
        let joined = sessions.into_iter().map(|session| session.join());
        joined.map(|outcome| outcome.unwrap_or_else(|error| Err(error.to_string()))).collect()
    });
    let elapsed = begun.elapsed();
    let mut all = Outcome::default();
    for outcome in outcomes {
        all.add(outcome?);
    }
    all.print(options.sessions, elapsed, out).or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(format!("cannot write to standard output: {error}")),
    })
}

/// Asks a server for its numbers of rows.
fn scale_of(remote: &mut Remote) -> Result<Scale, String> {
    match remote.ask(&DbRequest::Describe).map_err(told)? {
        Reply::Described(scale) => Ok(scale),
        _ => Err(told(RemoteError::Unreadable)),
    }
}

/// Sends one transaction after the other. If the server ends, waits for its successor.
fn converse(
    mut remote: Remote,
    server: &ServerName,
    mut mix: Mix,
    outage: &Outage,
    end: Instant,
) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    loop {
        let (kind, request) = mix.next();
        let begun = Instant::now();
        if begun >= end {
            return Ok(outcome);
        }
        match remote.ask(&request) {
            Ok(Reply::Failed(reason)) => return Err(reason),
            Ok(reply) => {
                outcome.times[kind].push(begun.elapsed());
                outcome.refused += u64::from(matches!(reply, Reply::Refused(_)));
            }
            Err(error) if error.is_end_of_server() => {
                outcome.interrupted += 1;
                outage.note(&error);
                remote.reconnect(server).map_err(told)?;
                outage.end();
            }
            Err(error) => return Err(told(error)),
        }
    }
}

/// The time without a server, of which one session tells.
#[derive(Default)]
struct Outage(AtomicBool);

impl Outage {
    fn note(&self, error: &RemoteError) {
        // Relaxed: the flag guards no other data.
        if !self.0.swap(true, Ordering::Relaxed) {
            tell(&error.to_string());
        }
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        for (times, more) in self.times.iter_mut().zip(other.times) {
            times.extend(more);
        }
        self.refused += other.refused;
        self.interrupted += other.interrupted;
    }

    fn print(mut self, sessions: u32, elapsed: Duration, out: &mut impl Write) -> io::Result<()> {
        let count: usize = self.times.iter().map(Vec::len).sum();
        let per_second = count as f64 / elapsed.as_secs_f64();
        let Outcome { refused, interrupted, .. } = self;
        writeln!(
            out,
            "{sessions} sessions: {count} transactions, {per_second:.0} per second, {refused} refused, \
             {interrupted} interrupted"
        )?;
        for ((name, _), times) in KINDS.iter().zip(&mut self.times) {
            times.sort_unstable();
            let Some(last) = times.len().checked_sub(1) else { continue };
            let at = |percent: usize| times[last * percent / 100].as_micros();
            let (number, p50, p99) = (times.len(), at(50), at(99));
            writeln!(out, "{name:<13}{number:>9}, p50 {p50} us, p99 {p99} us")?;
        }
        Ok(())
    }
}

fn told(error: RemoteError) -> String {
    error.to_string()
}
