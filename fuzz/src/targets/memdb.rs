//! The sessions of the example `memdb`: the replies to any bytes do not depend on the pieces in
//! which they arrive, they can be read, and the tables stay consistent.

#![allow(dead_code, reason = "there is no log here, and no service")]
#![allow(clippy::duplicate_mod, reason = "the example `kv` has the same log")]

use std::io::{self, Read, Write};

use contents::LogEntry;
use converse::converse;
use daiko::shm::Segment;
use database::{DatabaseOptions, MemDb};
use request::{DbRequest, Reply};
use schema::Scale;
use tables::Tables;

#[path = "../../../crates/daiko/examples/memdb/check.rs"]
mod check;
#[path = "../../../crates/daiko/examples/memdb/contents.rs"]
mod contents;
#[path = "../../../crates/daiko/examples/memdb/converse.rs"]
mod converse;
#[path = "../../../crates/daiko/examples/memdb/database.rs"]
mod database;
#[path = "../../../crates/daiko/examples/log/file.rs"]
mod file;
#[path = "../../../crates/daiko/examples/log/log.rs"]
mod log;
#[path = "../../../crates/daiko/examples/log/platform.rs"]
mod platform;
#[path = "../../../crates/daiko/examples/memdb/random.rs"]
mod random;
#[path = "../../../crates/daiko/examples/log/record.rs"]
mod record;
#[path = "../../../crates/daiko/examples/log/replay.rs"]
mod replay;
#[path = "../../../crates/daiko/examples/memdb/request.rs"]
mod request;
#[path = "../../../crates/daiko/examples/memdb/schema.rs"]
mod schema;
#[path = "../../../crates/daiko/examples/memdb/session.rs"]
mod session;
#[path = "../../../crates/daiko/examples/memdb/tables.rs"]
mod tables;
#[path = "../../../crates/daiko/examples/memdb/transactions.rs"]
mod transactions;

const FEW: Scale = Scale { warehouses: 2, customers: 2, items: 3 };

/// The input is two lengths of pieces, and the bytes of a client; or a record.
pub(super) fn fuzz(data: &[u8]) {
    any_record(data);
    let Some((&[one, other], bytes)) = data.split_first_chunk() else { return };
    let whole = replies(bytes, [usize::MAX; 2]);
    let cut = replies(bytes, [usize::from(one).max(1), usize::from(other).max(1)]);
    assert_eq!(cut, whole);
}

/// Asserts that a record which can be read is written as it was.
fn any_record(record: &[u8]) {
    if let Some(entry) = LogEntry::decode(record) {
        let mut again = Vec::new();
        entry.encode(&mut again);
        assert_eq!(again, record);
    }
}

/// The replies of a new database.
fn replies(bytes: &[u8], pieces: [usize; 2]) -> Vec<Reply> {
    let options = DatabaseOptions { log: None, scale: Some(FEW), seed: 1 };
    let place = |scale| Segment::anonymous(Tables::bytes(scale) + (1 << 20));
    let database = MemDb::open(&options, |scale| place(scale).map_err(|e| e.to_string()));
    let database = database.expect("a small segment");
    let mut client = Client { bytes, pieces, replies: Vec::new() };
    converse(&mut client, &database).expect("a client that lives");
    assert_eq!(database.execute(&DbRequest::Check).0, Reply::Consistent);
    let (mut rest, mut replies) = (&client.replies[..], Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (reply, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        replies.push(Reply::decode(reply).expect("a reply"));
        rest = behind;
    }
    assert!(rest.is_empty());
    replies
}

/// A client that sends its bytes in pieces of two lengths, in turn.
struct Client<'b> {
    bytes: &'b [u8],
    pieces: [usize; 2],
    replies: Vec<u8>,
}

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.pieces.reverse();
        let most = into.len().min(self.pieces[0]);
        self.bytes.read(&mut into[..most])
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.replies.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
