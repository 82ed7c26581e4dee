//! One sample between a server and clients that are forked from this process.

use std::convert::Infallible;
use std::io;
use std::process::ExitStatus;

use super::client::{Calls, ClientTally, GATES, Gate};
use super::method::{BYTES, IpcSpec, Link, Mechanism};
use super::outcome::IpcOutcome;
use super::slot::MOST_WORDS;
use crate::kit::{Complaint, Failure, ForkShared, OrFailure, Processes, host};

/// Index of the server, which is forked first.
const SERVER: usize = 0;

/// Shared memory that all processes of a sample write to.
struct Board {
    complaints: ForkShared<Complaint>,
    gates: ForkShared<Gate>,
    tallies: ForkShared<ClientTally>,
}

impl Board {
    fn new(clients: usize) -> Result<Self, Failure> {
        Ok(Self {
            complaints: ForkShared::new(1 + clients)?,
            gates: ForkShared::new(GATES)?,
            tallies: ForkShared::new(clients)?,
        })
    }
}

/// Makes a [`Mechanism`] of a [`Link`], between processes that are forked here.
pub(super) const fn forked<L: Link>() -> Mechanism {
    Mechanism { name: L::NAME, supports: L::supports, run: run::<L> }
}

fn run<L: Link>(spec: &IpcSpec) -> Result<IpcOutcome, Failure> {
    match spec.bytes {
        8 => run_link::<L, 1>(&L::open(spec)?, spec),
        64 => run_link::<L, 8>(&L::open(spec)?, spec),
        1024 => run_link::<L, 128>(&L::open(spec)?, spec),
        65536 => run_link::<L, MOST_WORDS>(&L::open(spec)?, spec),
        other => Err(Failure::Broken(format!("messages have one of {BYTES:?} bytes, not {other}"))),
    }
}

fn run_link<L: Link, const WORDS: usize>(link: &L, spec: &IpcSpec) -> Result<IpcOutcome, Failure> {
    let board = Board::new(spec.clients)?;
    let mut processes = Processes::default();
    start::<L, WORDS>(link, spec, &board, &mut processes).or_limit("cannot start a process")?;
    wait(&mut processes, &board)?;
    drop(processes);
    let mut outcome = IpcOutcome::default();
    board.tallies.iter().for_each(|tally| outcome.add(tally));
    Ok(outcome)
}

fn start<L: Link, const WORDS: usize>(
    link: &L,
    spec: &IpcSpec,
    board: &Board,
    processes: &mut Processes,
) -> io::Result<()> {
    let serve = || -> io::Result<Infallible> {
        host::bind(spec.server_cpu)?;
        link.serve::<WORDS>()
    };
    processes.fork(|| board.complaints[SERVER].note(serve()))?;
    for client in 0..spec.clients {
        let (tallies, gates, window) = (&board.tallies[..], &board.gates[..], spec.window);
        let calls = Calls { tallies, client, gates, window };
        let ask = || {
            host::bind(spec.client_cpu)?;
            link.ask::<WORDS>(client, calls)
        };
        processes.fork(|| board.complaints[SERVER + 1 + client].note(ask()))?;
    }
    Ok(())
}

/// Waits until all clients have ended.
fn wait(processes: &mut Processes, board: &Board) -> Result<(), Failure> {
    let mut clients = board.tallies.len();
    while clients > 0 {
        let next = processes.next_end().or_broken("cannot wait")?;
        let (index, status) = next.expect("the server does not end by itself");
        if index == SERVER || !status.success() {
            return Err(fault(board, index, status));
        }
        clients -= 1;
    }
    Ok(())
}

/// Reason why a process ended: a wrong answer, or else the first complaint. The server complains
/// before its clients, which notice its end only afterwards.
fn fault(board: &Board, index: usize, status: ExitStatus) -> Failure {
    if let Some(failure) = board.tallies.iter().find_map(|tally| tally.wrong.failure()) {
        return failure;
    }
    let role = |index| if index == SERVER { "the server" } else { "a client" };
    let complaint = |index: usize| Some((index, board.complaints[index].get()?));
    Failure::Broken(match (0..board.complaints.len()).find_map(complaint) {
        Some((index, error)) => format!("{} ended: {error}", role(index)),
        None => format!("{} ended with {status}", role(index)),
    })
}

#[cfg(test)]
#[path = "forked_tests.rs"]
mod tests;
