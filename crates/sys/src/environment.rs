//! Switches in the environment.

use std::env;
use std::ffi::OsString;

/// Returns true if the variable is 1, false if it is unset.
///
/// # Errors
///
/// The value, if it is another one.
///
/// ```
/// assert_eq!(daiko_sys::environment::is_on("DAIKO_DOC_UNSET"), Ok(false));
/// ```
pub fn is_on(variable: &str) -> Result<bool, OsString> {
    match env::var_os(variable) {
        None => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => Err(value),
    }
}
