//! The example `memdb`: its parts, and the program, alone and with processes that are killed.

#[path = "../../examples/memdb/check.rs"]
mod check;
#[path = "../../examples/memdb/contents.rs"]
mod contents;
#[path = "../../examples/memdb/converse.rs"]
mod converse;
#[path = "../../examples/memdb/database.rs"]
mod database;
#[path = "../../examples/log/file.rs"]
#[allow(dead_code, reason = "it replaces no log")]
mod file;
#[path = "../../examples/log/log.rs"]
#[allow(dead_code, reason = "it rewrites no log")]
mod log;
#[path = "../../examples/memdb/mix.rs"]
mod mix;
#[path = "../../examples/log/platform.rs"]
mod platform;
#[path = "../../examples/memdb/random.rs"]
mod random;
#[path = "../../examples/log/record.rs"]
#[allow(dead_code, reason = "it rewrites no log")]
mod record;
#[path = "../../examples/log/replay.rs"]
mod replay;
#[path = "../../examples/memdb/request.rs"]
mod request;
#[path = "../../examples/memdb/schema.rs"]
mod schema;
#[path = "../../examples/memdb/session.rs"]
#[allow(dead_code, reason = "a service is in the program only")]
mod session;
#[path = "../../examples/memdb/tables.rs"]
mod tables;
#[path = "../../examples/memdb/transactions.rs"]
mod transactions;

mod codec;
mod durable;
mod logs;
mod place;
mod processes;
mod program;
mod rules;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
