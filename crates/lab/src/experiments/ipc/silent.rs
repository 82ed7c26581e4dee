//! `daiko-watch`, `daiko-poller`: a fiber waits for a server that announces nothing, by a polled
//! watch of its slot, or by a poller.
//!
//! The fiber's worker has one CPU. Where the server has another, the fiber says so, as its users
//! would: the agent spins for the answer. Otherwise it looks now and then.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use daiko::Runtime;
use daiko::agent::PollerBuilder;
use daiko::sync::channel::{OneshotSender, oneshot};
use daiko::watch::{WatchBuilder, equal};
use daiko_sys::cpu;

use super::client::Calls;
use super::method::{IpcSpec, Link};
use super::slot::{ANSWERED, MessageSlot};
use super::spin;
use crate::kit::{Failure, ForkShared, Zeroed};

/// The CPU of the server, plus 1; 0 before the server runs.
struct ServerCpu(AtomicU32);

// SAFETY: an atomic number, for which zero is a valid value.
unsafe impl Zeroed for ServerCpu {}

/// A server that polls its slots, and clients that wait in fibers.
struct Silent {
    slots: ForkShared<MessageSlot>,
    server_cpu: ForkShared<ServerCpu>,
}

impl Silent {
    fn open(clients: usize) -> Result<Self, Failure> {
        Ok(Self { slots: ForkShared::new(clients)?, server_cpu: ForkShared::new(1)? })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        // Release: pairs with the Acquire in `has_server_elsewhere`.
        self.server_cpu[0].0.store(cpu::current() as u32 + 1, Ordering::Release);
        spin::serve::<WORDS>(&self.slots)
    }

    /// Returns true if the server has another CPU than the caller.
    fn has_server_elsewhere(&self) -> bool {
        loop {
            // Acquire: pairs with the Release in `serve`.
            match self.server_cpu[0].0.load(Ordering::Acquire) {
                0 => std::thread::yield_now(),
                server => return server != cpu::current() as u32 + 1,
            }
        }
    }
}

pub(super) struct DaikoWatch(Silent);

impl Link for DaikoWatch {
    const NAME: &'static str = "daiko-watch";

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        Silent::open(spec.clients).map(Self)
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        self.0.serve::<WORDS>()
    }

    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let slot = &self.0.slots[client];
        let watch = match self.0.has_server_elsewhere() {
            true => WatchBuilder::new().peer_elsewhere(),
            false => WatchBuilder::new(),
        };
        runtime()?.scope(|s| {
            let asks = s.spawn(|| {
                calls.make(|message| {
                    slot.ask(message);
                    watch.wait_until(&slot.state, equal(ANSWERED));
                    slot.read(message);
                    Ok(())
                })
            });
            asks.join().unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
        })
    }
}

/// The fiber that waits for the answer in the slot.
type Asker = Mutex<Option<OneshotSender<()>>>;

pub(super) struct DaikoPoller(Arc<Silent>);

impl Link for DaikoPoller {
    const NAME: &'static str = "daiko-poller";

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        Silent::open(spec.clients).map(|silent| Self(Arc::new(silent)))
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        self.0.serve::<WORDS>()
    }

    /// Registers a poller that is active while there is a question.
    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let slot = &self.0.slots[client];
        let builder = match self.0.has_server_elsewhere() {
            true => PollerBuilder::new().peer_elsewhere(),
            false => PollerBuilder::new(),
        };
        let (runtime, asker) = (runtime()?, Arc::new(Asker::default()));
        let (polled, asked) = (self.0.clone(), asker.clone());
        let poller = builder.on(0).inactive().register_in(&runtime, move || {
            // Acquire: pairs with the Release in `MessageSlot::answer`.
            if polled.slots[client].state.load(Ordering::Acquire) != ANSWERED {
                return 0;
            }
            let asker = asked.lock().ok().and_then(|mut asker| asker.take());
            asker.map_or(0, |asker| usize::from(asker.send(()).is_ok()))
        });
        let poller = poller.map_err(io::Error::other)?;
        runtime.scope(|s| {
            let asks = s.spawn(|| {
                calls.make(|message| {
                    let (completes, completion) = oneshot();
                    slot.ask(message);
                    *asker.lock().map_err(|_| io::ErrorKind::Other)? = Some(completes);
                    poller.set_active(true);
                    completion.recv().map_err(io::Error::other)?;
                    poller.set_active(false);
                    slot.read(message);
                    Ok(())
                })
            });
            asks.join().unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
        })
    }
}

/// Bytes of a fiber's stack, on which the longest message lies: several times without optimisation.
const STACK_BYTES: usize = 1 << 20;

/// A runtime of one worker, on the single CPU of the process.
pub(super) fn runtime() -> io::Result<Runtime> {
    Runtime::builder().workers(1).stack_size(STACK_BYTES).build().map_err(io::Error::other)
}
