//! The targets, one file each.

mod area;
mod arguments;
mod code;
mod control_groups;
mod drivers;
mod executables;
mod inspect;
mod journal;
mod kernel_files;
mod log;
mod mappings;
mod memdb;
mod replies;
mod requests;
mod resp;
mod results;
mod segment;
mod slab;
mod stack_size;
mod topology;
mod wakes;

/// Panics if it finds a fault in the results for these bytes.
pub type FuzzTarget = fn(&[u8]);

/// All targets by name; `fuzz/seeds` has a folder for each.
pub const TARGETS: [(&str, FuzzTarget); 21] = [
    ("area", area::fuzz),
    ("arguments", arguments::fuzz),
    ("code", code::fuzz),
    ("control_groups", control_groups::fuzz),
    ("drivers", drivers::fuzz),
    ("executables", executables::fuzz),
    ("inspect", inspect::fuzz),
    ("journal", journal::fuzz),
    ("kernel_files", kernel_files::fuzz),
    ("log", log::fuzz),
    ("mappings", mappings::fuzz),
    ("memdb", memdb::fuzz),
    ("replies", replies::fuzz),
    ("requests", requests::fuzz),
    ("resp", resp::fuzz),
    ("results", results::fuzz),
    ("segment", segment::fuzz),
    ("slab", slab::fuzz),
    ("stack_size", stack_size::fuzz),
    ("topology", topology::fuzz),
    ("wakes", wakes::fuzz),
];
