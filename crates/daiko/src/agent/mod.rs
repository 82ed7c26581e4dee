//! Sources that agents poll besides the runtime's own.
//!
//! [`register`] has the agents call a [`Poller`]: a queue of completions in memory, a device, the
//! progress function of a library. A [`PollerBuilder`] states more: the worker that calls it, a
//! descriptor that wakes that worker, a peer that has a CPU of its own. A poller that has nothing
//! to look for for some time is [made inactive](Registration::set_active), so that it costs
//! nothing.
//!
//! # Completions with a value
//!
//! A fiber that waits for a completion receives from a
//! [`oneshot`](crate::sync::channel::oneshot) channel. The poller keeps the sender with the
//! request, and sends the value: a send neither suspends nor waits. If the poller ends before, by a
//! panic or because its registration was dropped, the receiver gets an error.
//!
//! ```
//! use daiko::agent;
//! use daiko::sync::channel::{OneshotSender, oneshot};
//! use std::sync::{Arc, Mutex};
//!
//! #[derive(Default)]
//! struct Device {
//!     requests: Mutex<Vec<(u64, OneshotSender<u64>)>>,
//! }
//!
//! daiko::run(|| {
//!     let device = Arc::new(Device::default());
//!     let completes = device.clone();
//!     let poller = agent::register(move || {
//!         let requests = std::mem::take(&mut *completes.requests.lock().unwrap());
//!         let completed = requests.len();
//!         for (number, waiter) in requests {
//!             // An error: the fiber no longer waits.
//!             let _ = waiter.send(number * number);
//!         }
//!         completed
//!     });
//!     let (waiter, completion) = oneshot();
//!     device.requests.lock().unwrap().push((7, waiter));
//!     assert_eq!(completion.recv(), Ok(49));
//!     drop(poller);
//! });
//! ```

mod builder;
pub(crate) mod pollers;
mod wake_fd;

pub use builder::{PollerBuilder, RegisterError};
pub use pollers::{Poller, Registration, register};
