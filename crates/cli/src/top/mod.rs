//! `daiko top`: the workers of a process and its longest waits, again and again.

mod frame;

use std::{
    io::Write,
    process::ExitCode,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use daiko_inspect::Subject;
use daiko_sys::{
    process::PidFd,
    terminal::{self, Keys},
};

use crate::{args::TopRequest, interrupts, problem::Problem, subjects};
use frame::{Frame, Sort, TopSample};

/// Longest time without a look for an interrupt.
const PATIENCE: Duration = Duration::from_millis(100);
/// Another screen of the terminal, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The upper left corner.
const HOME: &str = "\x1b[H";
/// The rest of a line, and of the screen, is cleared.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Bytes of keys that end the command: `q`, Ctrl-C, Ctrl-D, Ctrl-\, Escape.
const ENDS: [u8; 5] = [b'q', 3, 4, 28, 27];

/// Shows a process until a key, an interrupt, or the end of the process; where the output is no
/// terminal, prints a frame for each interval.
pub(crate) fn run(request: &TopRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let subject = Subject::process(request.process).map_err(subjects::refused)?;
    let process =
        PidFd::open(request.process).map_err(|error| Problem::System(error.to_string()))?;
    let readers = subject.readers().map_err(subjects::refused)?;
    let Some(reader) = readers.first() else { unreachable!("without a table it is refused") };
    let stop = interrupts::stop_flag()?;
    let is_screen = terminal::size().is_some();
    let keys = if is_screen { Keys::take_over().ok().flatten() } else { None };
    let _screen = Screen::enter(is_screen, out)?;
    let (mut sort, mut waits) = (Sort::Worker, frame::Waits::default());
    let mut before = TopSample::at(reader);
    for number in 1.. {
        let due = before.at + Duration::from_secs(request.interval);
        while Instant::now() < due {
            let left = due.saturating_duration_since(Instant::now()).min(PATIENCE);
            let key = match &keys {
                Some(keys) => keys.key(left),
                None => {
                    thread::sleep(left);
                    None
                }
            };
            match key {
                Some(key) if ENDS.contains(&key) => return Ok(ExitCode::SUCCESS),
                Some(b's') => sort = sort.next(),
                Some(_) => {}
                None if stop.load(Ordering::Relaxed) => {
                    return Ok(ExitCode::from(interrupts::INTERRUPTED));
                }
                None => {}
            }
        }
        if process.has_ended() {
            return Err(Problem::System(format!("{} has ended", subject.name())));
        }
        let mut now = TopSample::at(reader);
        waits.update(std::mem::take(&mut now.fibers), now.at);
        let frame = Frame::new(&subject, reader, [&before, &now], sort, &waits);
        draw(&frame, is_screen, out)?;
        before = now;
        if request.count == Some(number) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn draw(frame: &Frame, is_screen: bool, out: &mut dyn Write) -> Result<(), Problem> {
    let (columns, rows) = match terminal::size() {
        Some(size) if is_screen => size,
        _ => (usize::MAX, usize::MAX),
    };
    if is_screen {
        write!(out, "{HOME}")?;
    }
    for line in frame.lines().iter().take(rows.saturating_sub(1)) {
        let line: String = line.chars().take(columns).collect();
        match is_screen {
            true => write!(out, "{line}{CLEAR_LINE}\r\n")?,
            false => writeln!(out, "{line}")?,
        }
    }
    if is_screen {
        write!(out, "{CLEAR_BELOW}")?;
    }
    Ok(out.flush()?)
}

/// The other screen of a terminal, until it is dropped.
struct Screen(bool);

impl Screen {
    fn enter(is_screen: bool, out: &mut dyn Write) -> Result<Self, Problem> {
        if is_screen {
            write!(out, "{ENTER}")?;
        }
        Ok(Screen(is_screen))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.0 {
            // The lock of standard output is the command's, which is at its end.
            let leave = LEAVE.as_bytes();
            let _ = terminal::write(leave);
        }
    }
}
