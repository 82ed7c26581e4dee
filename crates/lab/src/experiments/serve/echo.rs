//! What the echoes have in common.

use std::io::{self, Read, Write};

/// Bytes that an echo reads at once: as many messages as are sent together.
pub(super) const BUFFER: usize = 16 * super::script::BYTES;

/// Sends back what it receives, to the end of it.
pub(super) fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = [0; BUFFER];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read])?,
        }
    }
}
