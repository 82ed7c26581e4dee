//! Rings that several experiments run: the roles of their threads, and the peers.
//!
//! | file | subject |
//! |---|---|
//! | `part` | the work of a thread on a datum: check, count, pass on; the clock |
//! | `fibers` | the ring of Daiko's fibers |
//! | `tasks` | the ring of tokio's tasks |
//! | `program` | rings in other languages: the answer of such a program, and Go's |

pub(crate) mod fibers;
pub(crate) mod part;
pub(crate) mod program;
pub(crate) mod tasks;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Measurement of a ring, from lap mark to lap mark of one thread, which excludes set-up and
/// tear-down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingOutcome {
    /// Time of all `laps`.
    pub elapsed: Duration,
    /// Completed laps; fewer than requested if the limit was reached.
    pub laps: u64,
    /// CPU time of the process in that time, where the method states it.
    pub cpu: Option<Duration>,
}
