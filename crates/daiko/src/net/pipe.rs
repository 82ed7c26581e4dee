//! Pipes.

use std::io::{self, PipeReader, PipeWriter};

use super::Async;

/// A pipe whose ends suspend fibers: bytes that are written to one end are read from the other.
///
/// ```
/// use std::io::{Read, Write};
///
/// daiko::run(|| {
///     let (mut reader, mut writer) = daiko::net::pipe()?;
///     let writes = daiko::spawn(move || writer.write_all(&[7; 1 << 20]));
///     let mut bytes = Vec::new();
///     assert_eq!(reader.read_to_end(&mut bytes)?, 1 << 20);
///     writes.join().unwrap()
/// })
/// # .unwrap();
/// ```
///
/// # Errors
///
/// If there can be no further descriptors.
pub fn pipe() -> io::Result<(Async<PipeReader>, Async<PipeWriter>)> {
    let (reader, writer) = io::pipe()?;
    Ok((Async::new(reader)?, Async::new(writer)?))
}
