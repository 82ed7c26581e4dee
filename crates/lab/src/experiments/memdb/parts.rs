//! The parts of the example `memdb` that do not depend on a library.

#![allow(clippy::duplicate_mod, reason = "the store of the experiment `serve` has a log as well")]

#[path = "../../../memdb/check.rs"]
mod check;
#[path = "../../../memdb/contents.rs"]
pub(super) mod contents;
#[path = "../../../memdb/mix.rs"]
pub(super) mod mix;
#[path = "../../../memdb/random.rs"]
mod random;
#[path = "../../../log/record.rs"]
#[allow(dead_code, reason = "no log is rewritten")]
pub(super) mod record;
#[path = "../../../log/replay.rs"]
pub(super) mod replay;
#[path = "../../../memdb/request.rs"]
pub(super) mod request;
#[path = "../../../memdb/schema.rs"]
pub(super) mod schema;
#[path = "../../../memdb/tables.rs"]
pub(super) mod tables;
#[path = "../../../memdb/transactions.rs"]
pub(super) mod transactions;
