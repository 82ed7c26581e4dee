//! The example `kv`: its parts, its replies beside those of Redis, and the program.

#[path = "../../examples/kv/buffers.rs"]
mod buffers;
#[path = "../../examples/kv/commands.rs"]
mod commands;
#[path = "../../examples/kv/file.rs"]
mod file;
#[path = "../../examples/kv/log.rs"]
mod log;
#[path = "../../examples/kv/record.rs"]
mod record;
#[path = "../../examples/kv/replay.rs"]
mod replay;
#[path = "../../examples/kv/resp.rs"]
mod resp;
#[path = "../../examples/kv/serve.rs"]
mod serve;
#[path = "../../examples/kv/store.rs"]
mod store;
#[path = "../../examples/kv/words.rs"]
mod words;

mod codec;
mod durable;
mod keys;
mod logs;
mod memory;
mod peer;
mod pipelines;
mod program;
mod redis;
#[path = "../support/mod.rs"]
mod support;
