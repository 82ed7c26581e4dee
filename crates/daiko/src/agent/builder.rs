//! Registration of a poller with properties.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use daiko_sys::descriptor;

use super::pollers::{Poller, Pollers, Properties, Registration};
use super::wake_fd::WakeFd;
use crate::caller;
use daiko_rt::call::Call;
use daiko_rt::runtime::{Runtime, RuntimeInner};

/// The properties of a poller.
///
/// ```
/// use daiko::agent::PollerBuilder;
/// use daiko::sync::channel::oneshot;
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// let (mut device, mut peer) = UnixStream::pair()?;
/// device.set_nonblocking(true)?;
/// let wakes = device.try_clone()?;
/// let runtime = daiko::Runtime::builder().workers(1).build()?;
/// let (waiter, completion) = oneshot();
/// let mut waiter = Some(waiter);
///
/// // While nothing comes, the worker sleeps.
/// let poller = PollerBuilder::new().on(0).wake_fd(wakes).register_in(&runtime, move || {
///     let mut event = [0];
///     if device.read(&mut event).is_err() {
///         return 0;
///     }
///     waiter.take().map_or(0, |waiter| usize::from(waiter.send(event[0]).is_ok()))
/// })?;
/// let fiber = runtime.spawn(|| completion.recv());
/// peer.write_all(&[42])?;
/// assert_eq!(fiber.join().unwrap(), Ok(42));
/// drop(poller);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder registers nothing until `register`"]
pub struct PollerBuilder {
    worker: Option<usize>,
    peer_elsewhere: bool,
    is_inactive: bool,
    wake_fd: Option<OwnedFd>,
}

impl PollerBuilder {
    /// Creates the properties of a poller as [`register`](super::register) makes it: active, called
    /// by any agent, without a descriptor, and with a peer that may need the caller's CPU.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets only the agent of this worker, counted from 0, call the poller. It keeps the data of
    /// the poller in the caches of one CPU, and [`Registration::set_active`] wakes no other worker.
    pub fn on(mut self, worker: usize) -> Self {
        self.worker = Some(worker);
        self
    }

    /// States that the party that the poller waits for has a CPU of its own: a process on another
    /// CPU, a device.
    ///
    /// Then, while the poller is active, an agent spins as long as its [`Preset`](crate::Preset)
    /// says, even if the process may use one CPU only, and beyond
    /// [`RuntimeBuilder::max_agents`](crate::RuntimeBuilder::max_agents). Without this statement
    /// the agent takes the party for a thread that needs this CPU, and sleeps between two looks. A
    /// false statement costs time slices: the party gets the CPU when the kernel takes it from the
    /// agent.
    pub fn peer_elsewhere(mut self) -> Self {
        self.peer_elsewhere = true;
        self
    }

    /// Makes the poller inactive at first: no agent calls it until
    /// [`Registration::set_active`].
    pub fn inactive(mut self) -> Self {
        self.is_inactive = true;
        self
    }

    /// Lets the worker of the poller sleep, with this descriptor armed: when it is readable, the
    /// worker wakes and calls the poller. Without a descriptor, workers sleep only for the time
    /// between two looks that the [`Preset`](crate::Preset) sets.
    ///
    /// The worker is that of [`on`](Self::on), else the caller's, else worker 0. The descriptor is
    /// closed with the poller's registration; its flags are left as they are, and its data is left
    /// to the poller. While it stays readable after a poll, as one does that has hung up, the
    /// poller is polled as one without a descriptor; so it is if the kernel cannot wait for the
    /// descriptor.
    pub fn wake_fd(mut self, fd: impl Into<OwnedFd>) -> Self {
        self.wake_fd = Some(fd.into());
        self
    }

    /// Registers `poller` with the caller's runtime if the caller is a fiber, else with the default
    /// runtime.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] has the reasons.
    pub fn register(self, poller: impl Poller) -> Result<Registration, RegisterError> {
        self.register_at(caller::runtime_of(caller::current()), poller)
    }

    /// Registers `poller` with this runtime.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    pub fn register_in(
        self,
        runtime: &Runtime,
        poller: impl Poller,
    ) -> Result<Registration, RegisterError> {
        self.register_at(caller::inner(runtime), poller)
    }

    /// Registers `poller` with the runtime of this shared part.
    #[doc(hidden)]
    pub fn register_at(
        self,
        runtime: &RuntimeInner,
        poller: impl Poller,
    ) -> Result<Registration, RegisterError> {
        // Before the call begins, as an error drops the poller.
        let worker = self.worker_in(runtime)?;
        let wake_fd = self.wake_fd.map(checked).transpose()?;
        let properties = Properties { peer_elsewhere: self.peer_elsewhere, wake_fd };
        let call = Call::enter();
        let pollers = Pollers::of(runtime, worker);
        let registration = pollers.register(runtime, Box::new(poller), properties);
        if !self.is_inactive {
            registration.activate(call.token());
        }
        Ok(registration)
    }

    /// Returns the worker that the poller belongs to, if it belongs to one.
    fn worker_in(&self, runtime: &RuntimeInner) -> Result<Option<usize>, RegisterError> {
        let workers = runtime.worker_count();
        match self.worker {
            Some(worker) if worker < workers => Ok(Some(worker)),
            Some(worker) => Err(RegisterError::NoSuchWorker { worker, workers }),
            None if self.wake_fd.is_some() => {
                let here = caller::current().filter(|here| here.is_of(runtime));
                let here = here.map(|here| here.index as usize);
                Ok(Some(here.filter(|&here| here < workers).unwrap_or(0)))
            }
            None => Ok(None),
        }
    }
}

/// Checks that the kernel can wait for `fd`.
fn checked(fd: OwnedFd) -> Result<WakeFd, RegisterError> {
    match descriptor::is_always_ready(fd.as_fd()) {
        Ok(false) => Ok(WakeFd::new(fd)),
        Ok(true) => Err(RegisterError::AlwaysReady),
        Err(error) => Err(RegisterError::WakeFd(error)),
    }
}

/// The reason why a poller was not registered. It was dropped.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegisterError {
    /// [`PollerBuilder::on`] named a worker that the runtime does not have.
    NoSuchWorker {
        /// The worker that was asked for.
        worker: usize,
        /// The number of workers.
        workers: usize,
    },
    /// The descriptor of [`PollerBuilder::wake_fd`] is a file or a folder, which is always
    /// readable.
    AlwaysReady,
    /// The kernel refused the descriptor of [`PollerBuilder::wake_fd`].
    WakeFd(io::Error),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::NoSuchWorker { worker, workers } => write!(
                f,
                "no worker {worker}: this runtime has workers 0 to {}; name one of these in PollerBuilder::on",
                workers - 1
            ),
            RegisterError::AlwaysReady => f.write_str(
                "files and folders are always readable; pass PollerBuilder::wake_fd a pipe, socket or eventfd",
            ),
            RegisterError::WakeFd(error) => {
                write!(f, "{error}; pass PollerBuilder::wake_fd an open descriptor")
            }
        }
    }
}

impl Error for RegisterError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RegisterError::WakeFd(error) => Some(error),
            _ => None,
        }
    }
}
