//! The lives of attached processes, of any permitted user.

use daiko_core::robust::Holder;
use daiko_sys::file::SharedFile;
use daiko_sys::process::{Life, ProcessId};

use super::Segment;
use crate::table::AttachmentTable;

impl Segment {
    /// Finds the process of `holder`, which is attached.
    pub(crate) fn life(&self, holder: Holder, process: ProcessId) -> Life {
        life(&self.table(), &self.file(), holder, process)
    }
}

/// Finds the process of `holder`, which is attached; `file` is open in another attachment.
///
/// The kernel reveals to no other user which program a process runs. That the process has become
/// another program shows by its mark on the file then, which ended with the old program.
pub(super) fn life(
    table: &AttachmentTable<'_>,
    file: &SharedFile,
    holder: Holder,
    process: ProcessId,
) -> Life {
    match process.find() {
        Life::Alive(_)
            if table.is_marked(holder)
                && !process.reveals_program()
                && file.is_unmarked(holder.index()) =>
        {
            Life::Ended
        }
        life => life,
    }
}
