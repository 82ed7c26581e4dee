//! Redis: its server, and its protocol.

use std::convert::Infallible;
use std::ffi::CString;
use std::path::Path;
use std::{io, ptr};

use super::driver::say;
use super::failure::Skip;

const PROGRAM: &str = "redis-server";

/// Whether there is a server in the path.
///
/// # Errors
/// That there is none, with the remedy.
pub(crate) fn installed() -> Result<(), Skip> {
    let version = say(Path::new(PROGRAM), &["--version"], "").map(drop);
    version.ok_or_else(|| Skip::new("not installed (Debian: apt install redis-server)"))
}

/// In a forked process: becomes a server that is called by `arguments`.
///
/// # Errors
/// If that program cannot be executed.
pub(crate) fn become_server(arguments: &[CString]) -> io::Result<Infallible> {
    let arguments = arguments.iter().map(|argument| argument.as_ptr());
    let arguments: Vec<_> = arguments.chain([ptr::null()]).collect();
    // SAFETY: strings that live on, the last of them followed by null.
    unsafe { libc::execvp(arguments[0], arguments.as_ptr()) };
    Err(io::Error::last_os_error())
}

/// How to call a server that writes nothing, neither to disk nor to the standard output: its name, and
/// `own` among the rest.
pub(crate) fn quiet<'a>(own: impl IntoIterator<Item = &'a [u8]>) -> Vec<CString> {
    let words = [PROGRAM, "--save", "", "--appendonly", "no", "--daemonize", "no"];
    let words = words.into_iter().chain(["--logfile", "/dev/null"]).map(str::as_bytes);
    let string = |bytes| CString::new(bytes).expect("neither a word nor a path has a zero in it");
    words.chain(own).map(string).collect()
}

/// A command with its arguments, as the protocol has it.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| command.extend(string(word)));
    command
}

/// A string with its length, as the protocol has it in commands and replies.
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
