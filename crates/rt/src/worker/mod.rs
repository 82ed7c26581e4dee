//! Workers: kernel threads that run fibers.
//!
//! `state` holds the fields of a worker, `current` finds the worker of a thread, `life` runs it.
//! `suspend` is the one place where stacks are switched; `schedule` picks the next fiber, `settle`
//! completes the departure of the last one. `agent` polls when no fiber is runnable; `answer` and
//! `addressee` keep it from taking the CPU of the worker that it waits for, `policy` from keeping
//! the CPU from threads of lower priority. `mail` delivers requests of other workers. `hosting`
//! runs workers that stand by. `succession` replaces a worker after its process was killed.

mod addressee;
mod agent;
mod answer;
mod attention;
mod counters;
#[allow(unreachable_pub, reason = "the crates above reach it by `client`, under a contract")]
mod current;
mod hand_off;
mod hosting;
mod life;
mod mail;
mod offers;
mod pair;
mod policy;
mod schedule;
mod settle;
mod source;
mod stage;
mod state;
mod steal;
mod steal_history;
mod succession;
pub mod suspend;
mod timers;
mod trace;
mod watches;

pub use self::counters::WorkerCounters;
pub use self::current::{assert_no_poller, is_agent};
pub(crate) use self::current::{caller, current, here_unless_forked, try_caller, without_fiber};
pub use self::mail::{WakeRequest, mail_pinned, send, wake_migratable};
pub use self::source::{Bed, Round, Source, SourceKey, Sources, WakeBy};
pub(crate) use self::stage::{Coming, Unclear};
pub(crate) use self::state::Offer;
pub use self::state::{Timers, Watcher, Watches, Worker};
pub(crate) use self::succession::Plan;
