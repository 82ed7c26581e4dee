//! Pipes.

use std::io::{self, PipeReader, PipeWriter};

use super::Async;

/// Creates a pipe with ends that suspend fibers: bytes written to one end are read from the other.
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
/// If no further descriptors are available.
pub fn pipe() -> io::Result<(Async<PipeReader>, Async<PipeWriter>)> {
    let (reader, writer) = io::pipe()?;
    Ok((Async::new(reader)?, Async::new(writer)?))
}
