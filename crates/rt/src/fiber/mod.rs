//! Fibers: their handles; how they are spawned, run and joined.

mod abort_on_unwind;
mod anew;
mod cancel_scope;
mod cancelled;
mod control;
mod entry;
mod flags;
mod fork;
mod handle;
mod join;
mod kind;
mod lost;
mod panic_hook;
mod scope;
mod spawn;
mod spawn_error;
mod union_word;
pub mod unwind;
pub mod waiter;
mod wake;

pub(crate) use self::abort_on_unwind::AbortOnUnwind;
pub use self::cancel_scope::is_any_over as is_any_scope_over;
pub use self::cancelled::{CancelScope, Cancelled};
pub use self::control::{ControlBlock, FiberData};
pub use self::flags::Flags;
pub use self::fork::join;
pub use self::handle::{Fiber, current, no_suspend, park_timeout, try_current};
pub use self::join::{JoinError, JoinHandle, Joinable};
pub(crate) use self::kind::{Kind, StackKind};
pub(crate) use self::lost::die;
pub(crate) use self::panic_hook::install as install_panic_hook;
pub(crate) use self::scope::in_runtime;
pub use self::scope::{Scope, ScopedJoinHandle, scope};
pub use self::spawn::{Builder, spawn};
pub use self::spawn_error::SpawnError;
pub use self::unwind::panicking;
