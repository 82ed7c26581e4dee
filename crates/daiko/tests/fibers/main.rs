//! Fibers: their lives, scopes and locals, their waits, and the ends of these. No test depends on
//! state that all share.

mod auto_traits;
mod cancel;
mod fallbacks;
mod fork;
mod lives;
mod locals;
mod poller_properties;
mod pollers;
mod pooled_stacks;
mod presets;
mod scope;
#[path = "../support/mod.rs"]
mod support;
mod time;
mod timeout;
mod token;
mod watches;
