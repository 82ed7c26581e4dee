//! `tokio`: a task for each session. The database is that of kernel threads: its latches are held
//! for microseconds, and never while a task waits. A thread of its own writes the log.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{io, mem, thread};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::in_process::{Mailboxes, WakeSession};
use super::parts::mix::Mix;
use super::setup::{DatabaseSetup, SCALE, SEED};
use super::threads;
use super::threads::database::MemDb;
use super::threads::log::Position;
use super::threads::session::Session;
use crate::kit::address::Address;
use crate::kit::tasks::TokioKind;
use crate::kit::{Failure, OrFailure};

pub(super) fn start(
    setup: &DatabaseSetup<'_>,
    mailboxes: Arc<Mailboxes>,
) -> Result<WakeSession, Failure> {
    let shared = Arc::new(Committed::open(setup).map_err(Failure::Broken)?);
    let runtime = TokioKind::MultiThread.builder(1).build();
    let runtime = runtime.or_limit("tokio's runtime did not start")?;
    let letters: Arc<[Notify]> = (0..setup.sessions).map(|_| Notify::new()).collect();
    for session in 0..setup.sessions {
        let (shared, mailboxes) = (Arc::clone(&shared), Arc::clone(&mailboxes));
        runtime.spawn(converse_here(session, shared, mailboxes, Arc::clone(&letters)));
    }
    // The tasks end with the process.
    mem::forget(runtime);
    Ok(Box::new(move |session| letters[session].notify_one()))
}

/// The session of a task.
async fn converse_here(
    session: usize,
    shared: Arc<Committed>,
    mailboxes: Arc<Mailboxes>,
    letters: Arc<[Notify]>,
) {
    let mut mix = Mix::new(SEED, session, SCALE);
    loop {
        while !mailboxes.take(session) {
            letters[session].notified().await;
        }
        let (reply, position) = shared.database.execute(&mix.next().1);
        black_box(&reply);
        let reached = shared.reach(position).await.is_ok();
        mailboxes.note(session, reached);
    }
}

pub(super) fn serve(address: &Address, setup: &DatabaseSetup<'_>) -> io::Result<Infallible> {
    let shared = Arc::new(Committed::open(setup).map_err(io::Error::other)?);
    let runtime = TokioKind::MultiThread.builder(1).enable_io().build()?;
    let address = address.tcp()?;
    // Accepts on the worker, where the sessions are.
    let accepting = runtime.spawn(async move {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // The load tells if a session ends.
            tokio::spawn(converse(stream, Arc::clone(&shared)));
        }
    });
    runtime.block_on(accepting).map_err(io::Error::other)?
}

async fn converse(mut stream: TcpStream, shared: Arc<Committed>) -> io::Result<()> {
    let mut session = Session::new();
    loop {
        let bytes = match stream.read(session.room()).await? {
            0 => return Ok(()),
            bytes => bytes,
        };
        let goes_on = session.advance(bytes, &shared.database);
        if let Err(reason) = shared.reach(session.replies.after()).await {
            let reached = shared.database.log().map(|log| log.reached()).unwrap_or_default();
            session.replies.fail_after(reached, &reason);
        }
        stream.write_all(&session.replies.bytes).await?;
        session.replies.clear();
        if !goes_on {
            return Ok(());
        }
    }
}

/// A database with a thread that writes its log, turn by turn.
struct Committed {
    database: Arc<MemDb>,
    state: Mutex<CommitState>,
    /// Wakes the thread.
    is_asked: Condvar,
    /// Wake the tasks of a turn, by its number.
    turns: [Notify; 2],
}

#[derive(Default)]
struct CommitState {
    /// The last position that a task waits for.
    asked: Position,
    /// The number of turns that have begun.
    turn: usize,
}

impl Committed {
    fn open(setup: &DatabaseSetup<'_>) -> Result<Committed, String> {
        let database = threads::open(setup)?;
        Ok(Committed {
            database,
            state: Mutex::default(),
            is_asked: Condvar::new(),
            turns: Default::default(),
        })
    }

    /// Waits until the log has reached the position.
    async fn reach(self: &Arc<Self>, position: Position) -> Result<(), Arc<str>> {
        let Some(log) = self.database.log() else { return Ok(()) };
        while position > log.reached() {
            let turn = self.ask(position);
            // Made before the look: it is woken by each call of `notify_waiters` from now on.
            let notified = self.turns[turn % 2].notified();
            if position <= log.reached() {
                break;
            }
            if let Some(trouble) = log.trouble() {
                return Err(trouble);
            }
            notified.await;
        }
        Ok(())
    }

    /// Asks for the next turn, and returns its number.
    fn ask(self: &Arc<Self>, position: Position) -> usize {
        let mut state = self.state();
        if state.turn == 0 {
            // The thread of the first turn goes on for ever.
            state.turn = 1;
            let shared = Arc::clone(self);
            thread::spawn(move || shared.commit());
        }
        if position > state.asked {
            state.asked = position;
            self.is_asked.notify_one();
        }
        state.turn + 1
    }

    /// Writes the log whenever a task waits for that.
    fn commit(&self) {
        let Some(log) = self.database.log() else { return };
        let mut state = self.state();
        loop {
            let is_idle = |state: &mut CommitState| state.asked <= log.reached();
            state =
                self.is_asked.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner);
            state.turn += 1;
            let (turn, position) = (state.turn, state.asked);
            drop(state);
            let reached = log.reach(position);
            state = self.state();
            self.turns[turn % 2].notify_waiters();
            if reached.is_err() || state.asked <= log.reached() {
                // No turn follows for tasks that have asked for the next one.
                self.turns[(turn + 1) % 2].notify_waiters();
            }
            if reached.is_err() {
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, CommitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
