//! The database that all methods open.

use std::path::Path;

use daiko::shm::Segment;

use super::parts::schema::Scale;
use super::parts::tables::Tables;

/// Numbers of rows of all databases.
pub(super) const SCALE: Scale = Scale { warehouses: 2, ..Scale::ONE };
/// The seed of all loads.
pub(super) const SEED: u64 = 0x7CC;

/// A database, and the sessions that it has to serve.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabaseSetup<'p> {
    /// The file of the log, if there is one.
    pub(super) log: Option<&'p Path>,
    pub(super) sessions: usize,
}

/// Makes the segment of a database.
pub(super) fn segment(scale: Scale) -> Result<Segment, String> {
    let bytes = Tables::bytes(scale) + (1 << 20);
    Segment::anonymous(bytes).map_err(|error| error.to_string())
}
