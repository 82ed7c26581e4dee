//! Workers: kernel threads that run fibers.
//!
//! `schedule` picks the next fiber. `suspend` is the one place where stacks are switched. `agent`
//! polls when no fiber is runnable. `mail` delivers requests of other workers. `succession`
//! replaces a worker after its process was killed.

mod agent;
mod counters;
mod current;
mod heir;
mod life;
mod mail;
mod pair;
mod schedule;
mod source;
mod state;
mod steal;
mod succession;
pub mod suspend;
mod timers;
mod watches;

pub use self::counters::WorkerCounters;
pub(crate) use self::current::current_of_process;
pub use self::current::{assert_no_poller, current, is_agent, without_fiber};
pub use self::mail::{Wish, mail_pinned, send, wake_mover};
pub use self::source::{Bed, Round, Rung, Source, SourceKey, Sources};
pub(crate) use self::state::Departed;
pub use self::state::Worker;
pub(crate) use self::succession::{Coming, Plan, Unclear};
pub use self::timers::Timers;
pub use self::watches::{Watcher, Watches};
