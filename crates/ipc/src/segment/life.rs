//! The lives of attached processes, of any permitted user.

use daiko_core::robust::Holder;
use daiko_sys::file::FileMarks;
use daiko_sys::process::{Life, ProcessId};

use crate::table::AttachmentTable;

/// Finds the process of `holder`, which is attached. `marks` belong to another attachment; `None`
/// in a segment of one user.
///
/// The kernel reveals to no other user which program a process runs. A process that has become
/// another program has lost its mark on the file.
pub(super) fn life(
    table: &AttachmentTable<'_>,
    marks: Option<&FileMarks>,
    holder: Holder,
    process: ProcessId,
) -> Life {
    let has_lost_mark = || {
        let marks = marks.filter(|_| table.is_marked(holder) && !process.reveals_program());
        marks.is_some_and(|marks| marks.is_free(holder.index()))
    };
    match process.find() {
        Life::Alive(_) if has_lost_mark() => Life::Ended,
        life => life,
    }
}
