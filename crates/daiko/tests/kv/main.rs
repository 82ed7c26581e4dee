//! The example `kv`: its parts, its replies beside those of Redis, and the program.

#[path = "../../examples/kv/buffers.rs"]
mod buffers;
#[path = "../../examples/kv/commands.rs"]
mod commands;
#[path = "../../examples/kv/contents.rs"]
mod contents;
#[path = "../../examples/log/file.rs"]
mod file;
#[path = "../../examples/log/log.rs"]
mod log;
#[path = "../../examples/log/platform.rs"]
mod platform;
#[path = "../../examples/log/record.rs"]
mod record;
#[path = "../../examples/log/replay.rs"]
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
