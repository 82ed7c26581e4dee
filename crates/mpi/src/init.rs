//! The begin and the end of MPI.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use daiko::Runtime;
use daiko::agent::{PollerBuilder, RegisterError, Registration};
use daiko::cancel::shield;
use daiko::sync::channel::oneshot;
use daiko_sys::cpu;

use crate::comm::Comm;
use crate::engine::{ENGINE, Engine, engine};
use crate::error::{FinalizeError, InitError};
use crate::raw;

/// The version of the library that the crate was built for.
const BUILT_FOR: &str = include_str!(concat!(env!("OUT_DIR"), "/version.txt"));

/// MPI, from its initialisation to its end.
///
/// Dropping it finalises MPI, unless the thread panics, so that the launcher ends the other ranks.
/// If it cannot be finalised because fibers still wait, one line on standard error says so.
#[derive(Debug)]
pub struct Mpi {
    world: Comm,
    /// The thread that has initialised MPI, and finalises it once it is told to.
    keeper: Option<Keeper>,
}

#[derive(Debug)]
struct Keeper {
    end: mpsc::Sender<()>,
    thread: JoinHandle<c_int>,
}

/// The numbers of requests that the engine has at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineCounters {
    /// Operations in progress, with those that fibers wait for.
    pub operations: usize,
    /// Receives that wait for a message, and requests that MPI has not ended.
    pub requests: usize,
    /// Probes that wait for a message.
    pub probes: usize,
    /// The requests among them that nothing waits for; the engine keeps their buffers.
    pub left: usize,
    /// True if agents call the engine's poller.
    pub is_active: bool,
}

/// Initialises MPI for this process. The agents of the caller's runtime poll for messages if the
/// caller is a fiber, else those of the default runtime.
///
/// The launcher's options of MPI are found in the environment. That runtime has to last as long as
/// MPI is used.
///
/// # Errors
///
/// [`InitError`] has the reasons. MPI cannot be initialised again in this process.
///
/// # Panics
///
/// If the caller is a fiber inside [`no_suspend`](daiko::no_suspend), or a
/// [`Poller`](daiko::agent::Poller).
pub fn init() -> Result<Mpi, InitError> {
    init_by(PollerBuilder::register)
}

/// Initialises MPI as [`init`] does; the agents of this runtime poll for messages.
///
/// # Errors
///
/// As [`init`].
pub fn init_in(runtime: &Runtime) -> Result<Mpi, InitError> {
    init_by(|builder, poller| builder.register_in(runtime, poller))
}

type Look = fn() -> usize;

fn init_by(
    register: impl FnOnce(PollerBuilder, Look) -> Result<Registration, RegisterError>,
) -> Result<Mpi, InitError> {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if HAS_BEGUN.swap(true, Ordering::Relaxed) {
        return Err(InitError::Before);
    }
    check_version(&raw::library_version())?;
    let (keeper, begun) = Keeper::start()?;
    let is_serialized = match begun.check() {
        Ok(is_serialized) => is_serialized,
        Err(error) => {
            if begun.granted >= 0 {
                keeper.finalize();
            }
            return Err(error);
        }
    };
    let engine =
        ENGINE.get_or_init(|| Engine::new(begun.world, is_serialized, begun.has_own_cpu()));
    let mut builder = PollerBuilder::new().inactive();
    if engine.has_own_cpu {
        builder = builder.peer_elsewhere();
    }
    let poller = register(builder, || crate::engine::engine().poll());
    let poller = poller.unwrap_or_else(|error| unreachable!("no worker was named: {error}"));
    engine.registration.set(poller).unwrap_or_else(|_| unreachable!("MPI begins once"));
    let world = Comm::of_handle(begun.world).map_err(|error| InitError::Mpi(error.to_string()))?;
    Ok(Mpi { world, keeper: Some(keeper) })
}

fn check_version(loaded: &str) -> Result<(), InitError> {
    if loaded == BUILT_FOR.trim_end_matches(['\0', '\n', ' ']) {
        return Ok(());
    }
    let first = |version: &str| version.lines().next().unwrap_or_default().to_owned();
    Err(InitError::Version { built: first(BUILT_FOR), loaded: first(loaded) })
}

/// The result of the initialisation.
#[derive(Default)]
struct Initialized {
    error: c_int,
    /// The level of threads, as the shim numbers them; -1 if MPI was initialised before.
    granted: c_int,
    world: u64,
    /// The number of ranks on this machine.
    neighbours: c_int,
}

impl Initialized {
    /// Returns true if MPI lets one thread at a time call it.
    fn check(&self) -> Result<bool, InitError> {
        match (self.error, self.granted) {
            (0, -1) => Err(InitError::Before),
            (0, 3) => Ok(false),
            (0, 2) => Ok(true),
            (0, 1) => Err(InitError::ThreadLevel("MPI_THREAD_FUNNELED")),
            (0, _) => Err(InitError::ThreadLevel("MPI_THREAD_SINGLE")),
            (error, _) => Err(InitError::Mpi(raw::explain(error).1)),
        }
    }

    /// Returns true if each rank of this machine has a CPU, so that an agent may spin although this
    /// process has one only.
    fn has_own_cpu(&self) -> bool {
        cpu::online().is_ok_and(|online| self.neighbours as usize <= online.len())
    }
}

impl Keeper {
    /// Starts the thread, and waits until it has initialised MPI. MPI wants to be finalised by the
    /// same thread, and a fiber may go on on another one.
    fn start() -> Result<(Keeper, Initialized), InitError> {
        let (end, told) = mpsc::channel();
        let (sender, begun) = oneshot();
        let run = move || {
            let mut begun = Initialized::default();
            // SAFETY: the call writes to live locals.
            begun.error = unsafe {
                raw::daiko_mpi_init(&mut begun.granted, &mut begun.world, &mut begun.neighbours)
            };
            let _ = sender.send(begun);
            match told.recv() {
                // SAFETY: no other thread calls MPI any more.
                Ok(()) => unsafe { raw::daiko_mpi_finalize() },
                Err(_) => 0,
            }
        };
        let thread = thread::Builder::new().name("daiko-mpi".into()).spawn(run);
        let thread = thread.map_err(|error| InitError::Thread(error.to_string()))?;
        let begun = shield(|| begun.recv()).expect("the thread sends before it ends");
        Ok((Keeper { end, thread }, begun))
    }

    fn finalize(self) -> c_int {
        let end = move || {
            let _ = self.end.send(());
            self.thread.join().unwrap_or(-1)
        };
        // Only the wait of a fiber is kept from its worker.
        if daiko::try_current().is_some() { shield(|| daiko::blocking(end)) } else { end() }
    }
}

impl Mpi {
    /// Returns the communicator of all ranks: a duplicate of `MPI_COMM_WORLD`, so that its messages
    /// stay apart from those of other code in the process.
    pub fn world(&self) -> &Comm {
        &self.world
    }

    /// Returns the counters of the engine.
    pub fn counters(&self) -> EngineCounters {
        let engine = engine();
        let table = engine.table();
        let (requests, probes, left) = table.counts();
        let (operations, is_active) = (engine.gate.count(), table.is_active);
        EngineCounters { operations, requests, probes, left, is_active }
    }

    /// Finalises MPI: waits for all ranks to do so. Operations return [`MpiError::Finalized`]
    /// from now on.
    ///
    /// [`MpiError::Finalized`]: crate::MpiError::Finalized
    ///
    /// # Errors
    ///
    /// [`FinalizeError::Waiting`], with their numbers, if operations are in progress; MPI is in use
    /// as before.
    pub fn finalize(&mut self) -> Result<(), FinalizeError> {
        if self.keeper.is_none() {
            return Ok(());
        }
        engine().gate.close().map_err(|operations| {
            let left = self.counters().left;
            FinalizeError::Waiting { operations: operations - left.min(operations), left }
        })?;
        let keeper = self.keeper.take().expect("it was there");
        match keeper.finalize() {
            0 => Ok(()),
            error => Err(FinalizeError::Mpi(format!("MPI_Finalize returns {error}"))),
        }
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        if let Err(error) = self.finalize() {
            eprintln!("daiko: {error}");
        }
    }
}
