//! The terminal of a command: keys, and size.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::thread::errno;

const INPUT: libc::c_int = libc::STDIN_FILENO;
const OUTPUT: libc::c_int = libc::STDOUT_FILENO;

/// The keyboard, key by key: without echo, and with the keys of signals as plain bytes. The setting
/// from before comes back when it is dropped.
#[derive(Debug)]
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// Takes the keyboard over. `None`: standard input is no terminal.
    ///
    /// # Errors
    ///
    /// The error of `tcsetattr`.
    pub fn take_over() -> io::Result<Option<Self>> {
        let mut before = MaybeUninit::uninit();
        // SAFETY: writes the live local.
        if unsafe { libc::tcgetattr(INPUT, before.as_mut_ptr()) } != 0 {
            return Ok(None);
        }
        // SAFETY: just written.
        let before: libc::termios = unsafe { before.assume_init() };
        let mut plain = before;
        plain.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        plain.c_cc[libc::VMIN] = 0;
        plain.c_cc[libc::VTIME] = 0;
        // SAFETY: reads the live local.
        match unsafe { libc::tcsetattr(INPUT, libc::TCSANOW, &raw const plain) } {
            0 => Ok(Some(Keys { before })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for a key, for at most this time. `None`: none came, or a signal did.
    pub fn key(&self, timeout: Duration) -> Option<u8> {
        let mut input = libc::pollfd { fd: INPUT, events: libc::POLLIN, revents: 0 };
        let timeout = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one live entry.
        let polled = unsafe { libc::poll(&raw mut input, 1, timeout) };
        if polled != 1 {
            return None;
        }
        let mut key = 0_u8;
        // SAFETY: writes one byte to a live local.
        let read = unsafe { libc::read(INPUT, (&raw mut key).cast(), 1) };
        (read == 1).then_some(key)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: reads the setting from before.
        let set = unsafe { libc::tcsetattr(INPUT, libc::TCSANOW, &raw const self.before) };
        debug_assert!(set == 0 || errno() == libc::EIO, "the setting was there before");
    }
}

/// Returns the columns and rows of the terminal that standard output is. `None`: it is none.
pub fn size() -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: writes the live local.
    let known = unsafe { libc::ioctl(OUTPUT, libc::TIOCGWINSZ, &raw mut size) } == 0;
    (known && size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Writes to the terminal at once, beside any buffer. For the end of a command.
///
/// # Errors
///
/// The error of `write`.
pub fn write(bytes: &[u8]) -> io::Result<()> {
    // SAFETY: reads a live buffer of that length.
    match unsafe { libc::write(OUTPUT, bytes.as_ptr().cast(), bytes.len()) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
