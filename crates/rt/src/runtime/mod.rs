//! The runtime: its workers, its memory, its life.

mod affinity;
mod barriers;
mod build;
mod build_error;
mod builder;
mod default;
mod dispatch;
mod handle;
pub mod kernel;
mod polling;
pub(crate) mod pool;
mod selection;
mod shared;
mod shutdown;
mod stack_size;
mod start_thread;
pub(crate) mod thread;

pub(crate) use self::barriers::Barriers;
pub use self::build_error::{BuildError, RefusedCall};
pub use self::builder::RuntimeBuilder;
pub(crate) use self::default::of;
pub use self::default::{default_runtime, run};
pub use self::handle::Runtime;
pub use self::polling::Polling;
pub use self::selection::Selector;
pub use self::shared::{Hold, RuntimeInner};
pub(crate) use self::shared::{RuntimeOptions, SharedPtr, phase};
pub use self::shutdown::ShutdownReport;
pub use self::stack_size::parse as parse_stack_size;
pub(crate) use self::thread::{ThreadSetUp, set_up_thread, start as start_thread};
pub use daiko_core::governor::{Preset, SpinReason};
