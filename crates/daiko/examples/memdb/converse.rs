//! The loop of a connection, for threads that wait: fibers, or kernel threads.

use std::io::{self, ErrorKind, Read, Write};

use super::database::MemDb;
use super::platform::on_warm_stack;
use super::session::{Session, UnsentReplies};

/// Answers a client until it leaves, or sends bytes that are no request.
pub(crate) fn converse(stream: &mut (impl Read + Write), database: &MemDb) -> io::Result<()> {
    let mut session = Session::new();
    loop {
        let bytes = match stream.read(session.room()) {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let goes_on = on_warm_stack(|| session.advance(bytes, database));
        settle(database, &mut session.replies);
        stream.write_all(&session.replies.bytes)?;
        session.replies.clear();
        if !goes_on {
            return Ok(());
        }
    }
}

/// Waits until the log has all that the replies tell of. If it cannot, they become errors.
pub(crate) fn settle(database: &MemDb, replies: &mut UnsentReplies) {
    if let Some(log) = database.log()
        && let Err(reason) = log.reach(replies.after())
    {
        replies.fail_after(log.reached(), &reason);
    }
}
