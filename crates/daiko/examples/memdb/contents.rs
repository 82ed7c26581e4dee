//! The contents of the log's records: the first state of the tables, then each request that has
//! changed them.
//!
//! ```text
//! record  0 seed (8 bytes) warehouses customers items (4 each)
//!         a request: see `request`
//! ```
//!
//! A record states the operation, not its result, as it is far shorter: some 140 bytes for an
//! order, where the changed rows take 900. So the records have to be repeated once each, in order.

use super::request::DbRequest;
use super::schema::Scale;

/// The program, as its messages name it.
pub(crate) const PROGRAM: &str = "memdb";
/// The first bytes of its logs.
pub(crate) const NAME: &[u8; 8] = b"memdb  1";
/// The contents of the record that notes a rewrite. This program rewrites no log.
pub(crate) const REWRITTEN_NOTE: &[u8] = &[0];

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogEntry {
    Filled { seed: u64, scale: Scale },
    Changed(DbRequest),
}

impl LogEntry {
    /// Appends the contents of the record.
    pub(crate) fn encode(&self, record: &mut Vec<u8>) {
        match self {
            LogEntry::Filled { seed, scale } => {
                record.push(0);
                record.extend_from_slice(&seed.to_le_bytes());
                for number in [scale.warehouses, scale.customers, scale.items] {
                    record.extend_from_slice(&number.to_le_bytes());
                }
            }
            LogEntry::Changed(request) => request.encode(record),
        }
    }

    /// Decodes the contents of a record.
    pub(crate) fn decode(record: &[u8]) -> Option<LogEntry> {
        let [0, rest @ ..] = record else {
            return DbRequest::decode(record).filter(DbRequest::is_write).map(LogEntry::Changed);
        };
        let (seed, rest) = rest.split_first_chunk()?;
        let numbers: [[u8; 4]; 3] =
            [*rest.first_chunk()?, *rest.get(4..)?.first_chunk()?, *rest.get(8..)?.first_chunk()?];
        let [warehouses, customers, items] = numbers.map(u32::from_le_bytes);
        let scale = Scale { warehouses, customers, items };
        let entry = LogEntry::Filled { seed: u64::from_le_bytes(*seed), scale };
        (rest.len() == 12 && scale.is_possible()).then_some(entry)
    }
}

/// Returns true if these are the contents of a record.
pub(crate) fn are_whole(contents: &[u8]) -> bool {
    LogEntry::decode(contents).is_some()
}
