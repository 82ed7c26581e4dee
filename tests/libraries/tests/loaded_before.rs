//! A library that was loaded before the first runtime: the only test of its program.

use std::ffi::c_long;
use std::sync::Arc;

use daiko_libraries::hundred;
use daiko_libraries::late::{Compiled, Model};

/// The thread that loads the library does not use it, so the loader has not told it the address.
#[test]
fn a_library_that_was_loaded_before_has_its_first_values_in_every_fiber() {
    let library = match Compiled::new(Model::InitialExec, 104) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    let loaded = Arc::new(library.load());
    hundred(move |member| loaded.assert_new(member.index as c_long, || member.meet()));
}
