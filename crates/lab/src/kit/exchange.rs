//! A conversation with another program: it gets an input, and answers until it ends.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use daiko_sys::process::die_with_parent;

use super::stop::RunStop;

/// The answer of a program, and its exit status.
pub(crate) struct Exchange {
    /// Its standard output, or `None` if it was killed before it ended.
    pub(crate) reply: Option<Vec<u8>>,
    /// Its standard error.
    pub(crate) errors: Vec<u8>,
    pub(crate) status: ExitStatus,
}

/// Starts `command`, passes `input` to it, and kills it after `patience`.
///
/// # Errors
/// Fails if the program cannot be started.
pub(crate) fn exchange(command: Command, input: &[u8], patience: Duration) -> io::Result<Exchange> {
    exchange_until(command, input, patience, None, |_| ())
}

/// Exchanges as [`exchange`] does, calls `started` with the id of the process, and kills it also
/// once `stop` is requested.
///
/// The program is in a process group of its own: an interrupt from the terminal is left to the
/// caller, and a kill reaches the program's children. It never outlives the calling thread.
///
/// # Errors
/// Fails if the program cannot be started.
pub(crate) fn exchange_until(
    mut command: Command,
    input: &[u8],
    patience: Duration,
    stop: Option<&RunStop>,
    started: impl FnOnce(u32),
) -> io::Result<Exchange> {
    let parent = std::process::id();
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: the closure only makes system calls; it uses no allocator and no locks.
    unsafe { command.pre_exec(move || die_with_parent(parent)) };
    let mut child = command.spawn()?;
    started(child.id());
    let mut stdin = child.stdin.take().expect("piped");
    // A program that ends early closes the pipe; its status is more informative.
    let _ = stdin.write_all(input);
    drop(stdin);
    let (sender, stdout) = mpsc::channel();
    let end = sender.clone();
    drain(child.stdout.take(), move |bytes| drop(sender.send(Some(bytes))));
    let (sender, stderr) = mpsc::channel();
    drain(child.stderr.take(), move |bytes| drop(sender.send(bytes)));
    let listening = stop.map(|stop| stop.listen(move || drop(end.send(None))));
    let reply = stdout.recv_timeout(patience).ok().flatten();
    drop(listening);
    kill_group(&child);
    let status = child.wait()?;
    Ok(Exchange { reply, errors: stderr.recv().unwrap_or_default(), status })
}

/// Kills the rest of the child's process group.
fn kill_group(child: &Child) {
    // SAFETY: no memory is passed. The child has not been waited for, so its id has not been
    // reused.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
}

/// Reads `pipe` to its end on a thread, so that no pipe fills up. Passes the contents to `then`.
fn drain(pipe: Option<impl Read + Send + 'static>, then: impl FnOnce(Vec<u8>) + Send + 'static) {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.expect("piped").read_to_end(&mut bytes);
        then(bytes);
    });
}
