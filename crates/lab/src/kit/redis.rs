//! Redis: its server, and its protocol.

use std::convert::Infallible;
use std::ffi::CString;
use std::path::Path;
use std::{io, ptr};

use super::driver::say;
use super::failure::Skip;

const PROGRAM: &str = "redis-server";

/// Checks that a server is in the path.
///
/// # Errors
/// Fails if there is none; the reason names the remedy.
pub(crate) fn installed() -> Result<(), Skip> {
    let version = say(Path::new(PROGRAM), &["--version"], "").map(drop);
    version.ok_or_else(|| Skip::without("not installed", "redis-server"))
}

/// Becomes a server with these `arguments`, of which the first is its name. Called in a forked
/// process.
///
/// # Errors
/// Fails if the program cannot be executed.
///
/// # Panics
/// If there is no argument.
pub(crate) fn become_server(arguments: &[CString]) -> io::Result<Infallible> {
    assert!(!arguments.is_empty(), "the first argument is the name of the program");
    let arguments = arguments.iter().map(|argument| argument.as_ptr());
    let arguments: Vec<_> = arguments.chain([ptr::null()]).collect();
    // SAFETY: a live string, and an array of live strings, terminated by null.
    unsafe { libc::execvp(arguments[0], arguments.as_ptr()) };
    Err(io::Error::last_os_error())
}

/// Builds the arguments of a server that writes neither to disk nor to the standard output: its
/// name, fixed options, and `own`.
pub(crate) fn quiet<'a>(own: impl IntoIterator<Item = &'a [u8]>) -> Vec<CString> {
    let words = [PROGRAM, "--save", "", "--appendonly", "no", "--daemonize", "no"];
    let words = words.into_iter().chain(["--logfile", "/dev/null"]).map(str::as_bytes);
    let string = |bytes| CString::new(bytes).expect("neither a word nor a path has a zero in it");
    words.chain(own).map(string).collect()
}

/// Encodes a command with its arguments by the protocol.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| command.extend(string(word)));
    command
}

/// Encodes a string with its length, as commands and replies of the protocol have it.
pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_the_protocol_has_them() {
        assert_eq!(command(&[b"GET", b"key 1"]), b"*2\r\n$3\r\nGET\r\n$5\r\nkey 1\r\n");
    }
}
